import type { Command } from "@commander-js/extra-typings";
import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { findRecords } from "../../modules/support/findRecords.ts";
import type { FoundRecords } from "../../modules/support/findRecords.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import { parseSearchText, parserOf, wholeNumber } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, operatorOption, reasonOption } from "../operator.ts";
import type { Cell } from "../output/formatTable.ts";
import { isCell, printRecord, printResult } from "../output/print.ts";

/** A record as it is printed, with the same names in JSON. */
type Shown = Readonly<Record<string, unknown>>;

type Owned = {
  readonly accountId: string;
  readonly accountName: string;
  readonly accountType: "organization" | "store";
};

const ownerOf = ({ accountId, accountName, accountType }: Owned) => ({
  owner: accountName,
  owner_type: accountType,
  owner_id: accountId,
});

const customerOf = (record: {
  readonly attribution: string;
  readonly idempotencyKey: string | null;
  readonly customerName: string | null;
  readonly customerEmail: string | null;
  readonly customerId: string | null;
  readonly orderId: string | null;
}) => ({
  idempotency_key: record.idempotencyKey,
  attribution: record.attribution === "" ? null : record.attribution,
  order: record.orderId,
  customer_name: record.customerName,
  customer_email: record.customerEmail,
  customer_id: record.customerId,
});

/** An account's overview: the command of an organization or of a store. */
const accountCommand = ({ accountType, accountId }: Owned): string =>
  accountType === "store" ? `impact store show ${accountId}` : `impact org show ${accountId}`;

/** Clients know an imported record by the id that it brought along; commands accept both ids. */
const idsOf = (record: { readonly id: string; readonly importedId: string | null }) => ({
  id: shownIdOf(record),
  internal_id: record.importedId === null ? null : record.id,
});

const presentRegistration = (record: FoundRecords["registrations"][number]): Shown => {
  const { usage } = record;
  const [failed] = usage.failedEventIds;
  return {
    record: "registration",
    ...idsOf(record),
    found_by: record.foundBy,
    ...ownerOf(record),
    mode: record.mode,
    kind: record.kind,
    count: record.count,
    refunded_count: record.refundedCount,
    remaining_count: record.count - record.refundedCount,
    created_at: record.createdAt,
    ...customerOf(record),
    billing: usage.state,
    cause: usage.events.find(({ id }) => id === failed)?.lastError ?? null,
    evidence: record.kind === PLANTED_KIND ? (record.orderStage ?? "registered") : null,
    planting_order: record.plantingOrder,
    next: `impact usage ${failed === undefined ? `explain ${record.id}` : `retry E${failed}`}`,
  };
};

const presentDonation = (record: FoundRecords["donations"][number]): Shown => ({
  record: "donation",
  ...idsOf(record),
  found_by: record.foundBy,
  ...ownerOf(record),
  mode: record.mode,
  amount_cents: record.amountCents,
  amount: formatCents(record.amountCents),
  charity: record.charityName,
  ein: record.ein && formatEin(record.ein),
  nonprofit_id: record.nonprofitId,
  charity_provider: record.charityProvider,
  metadata: record.metadata,
  created_at: record.createdAt,
  ...customerOf(record),
  refunded: record.refunded,
  refunded_at: record.refundedAt,
  refund_reason: record.refundReason,
  refund_idempotency_key: record.refundIdempotencyKey,
  refund_metadata: record.refundMetadata,
  next: record.refunded ? null : `impact refund ${record.id} --reason TEXT`,
});

const presentMeterEvent = (record: FoundRecords["meterEvents"][number]): Shown => ({
  record: "meter event",
  id: `E${record.id}`,
  identifier: record.identifier,
  owner_id: record.accountId,
  mode: record.mode,
  meter: record.kind,
  at: timeOf(record.second),
  quantity: record.quantity,
  state: record.state,
  last_error: record.lastError,
  next: `impact usage ${record.state === "failed" ? "retry" : "explain"} E${record.id}`,
});

const presentAccount = (record: FoundRecords["accounts"][number]): Shown => ({
  record: record.accountType,
  id: record.accountId,
  found_by: [record.foundBy],
  owner: record.accountName,
  stripe_customer: record.stripeCustomerId,
  next: accountCommand(record),
});

const presentKey = (record: FoundRecords["keys"][number]): Shown => ({
  record: "API key",
  id: record.id,
  found_by: [record.foundBy],
  ...ownerOf(record),
  mode: record.mode,
  name: record.name,
  scope: record.scope,
  starts_with: record.hint,
  created_at: record.createdAt,
  expires_at: record.expiresAt,
  last_used_at: record.lastUsedAt,
  revoked_at: record.revokedAt,
  next: accountCommand(record),
});

const presentStoreWrite = (record: FoundRecords["storeWrites"][number]): Shown => ({
  record: "store request",
  id: record.key,
  found_by: ["idempotency_key"],
  ...ownerOf(record),
  mode: record.mode,
  operation: record.operation,
  created_at: record.createdAt,
  next: `impact store ledger ${record.accountId}`,
});

const present = (found: FoundRecords): readonly Shown[] => [
  ...found.accounts.map(presentAccount),
  ...found.keys.map(presentKey),
  ...found.meterEvents.map(presentMeterEvent),
  ...found.registrations.map(presentRegistration),
  ...found.donations.map(presentDonation),
  ...found.storeWrites.map(presentStoreWrite),
];

/** Returns a value as the text shows it: what found a record as words, and metadata as JSON. */
const textOf = (value: unknown): Cell =>
  Array.isArray(value)
    ? value.map((by) => String(by).replaceAll("_", " ")).join(", ")
    : isCell(value)
      ? value
      : JSON.stringify(value);

/** Names and values for people: without what is absent. */
const forPeople = (shown: Shown): Readonly<Record<string, Cell>> =>
  Object.fromEntries(
    Object.entries(shown)
      .filter(([name, value]) => value !== null && name !== "amount_cents")
      .map(([name, value]) => [name.replaceAll("_", " "), textOf(value)]),
  );

const FIND_HELP = `
TEXT is an id of a registration, refund, donation, account or API key (as in the log) or
its first eight characters; the name of an organization or a store, a store's domain, a
Stripe customer, or the first characters of an API key; an idempotency key, an
attribution, a value in metadata; a shop's order (1001 also finds #1001), a customer's
email, id or part of the name; or the number or identifier of a meter
event. Each record is shown with its owner, billing, evidence and the next command to run.
If records name customers of a store, the audit log records how many.`;

/** Every record that is found costs several queries. */
const parseFindLimit = parserOf(wholeNumber(1, 1000), "a number from 1 to 1000");

export const defineFindCommand = (command: Command, context: CliContext): void => {
  command
    .argument("<text>", "id, key, order, customer or other text to search for", parseSearchText)
    .addOption(accountOption())
    .option("--limit <n>", "maximum records of each kind", parseFindLimit, 20)
    .addOption(operatorOption())
    .addOption(reasonOption())
    .addHelpText("after", FIND_HELP)
    .action(async (text, { org, limit, ...operator }) => {
      const { io } = context;
      const deps = await openChange(context, operator);
      const accountId = await readAccountFilter(deps.db, org);
      const found = await findRecords(deps, { text, accountId, limit });
      const records = present(found);
      printResult(io, { records, has_more: found.hasMore }, () => {
        for (const [index, shown] of records.entries()) {
          io.stdout.write(index === 0 ? "" : "\n");
          printRecord(io, forPeople(shown));
        }
      });
      if (records.length === 0) {
        throw new CommandError(EXIT.notFound, `Nothing found for ${JSON.stringify(text)}.`);
      }
      if (found.hasMore) {
        say(
          io,
          `There are more records; these are the newest ${limit} of each kind. Raise --limit.`,
        );
      }
    });
};
