import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { findRecords } from "../../modules/support/findRecords.ts";
import type { FoundRecords } from "../../modules/support/findRecords.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { parseSearchText, parserOf, wholeNumber } from "../arguments.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { presentMeterEvent } from "../output/printUsage.ts";
import { OPERATOR, REASON } from "../command.ts";
import type { Define } from "../command.ts";
import { snakeCased } from "../output/print.ts";
import type { Fields } from "../output/print.ts";

const accountCommand = ({
  accountType,
  accountId,
}: Pick<FoundRecords["accounts"][number], "accountId" | "accountType">): string =>
  `impact ${accountType === "store" ? "store" : "org"} show ${accountId}`;

type Found = {
  readonly id: string;
  readonly importedId?: string | null;
  readonly foundBy: string | readonly string[];
};

/** Clients know an imported record by the id that it brought along; commands accept both ids. */
const presentFound = (
  record: string,
  { id, importedId = null, foundBy, ...row }: Found,
  more: Fields,
): Fields => ({
  record,
  id: shownIdOf({ id, importedId }),
  internal_id: importedId === null ? null : id,
  found_by: [foundBy].flat(),
  ...snakeCased(row),
  ...more,
});

const presentRegistration = ({
  usage,
  orderStage,
  ...record
}: FoundRecords["registrations"][number]): Fields => {
  const failed = usage.events.find(({ state }) => state === "failed");
  return presentFound("registration", record, {
    remaining_count: record.count - record.refundedCount,
    billing: usage.state,
    cause: failed?.lastError ?? null,
    evidence: record.kind === PLANTED_KIND ? (orderStage ?? "registered") : null,
    next: `impact usage ${failed === undefined ? `explain ${record.id}` : `retry E${failed.id}`}`,
  });
};

const presentFoundEvent = (event: FoundRecords["meterEvents"][number]): Fields => {
  const { item, reason, ...shown } = presentMeterEvent(event);
  const next = `impact usage ${event.state === "failed" ? "retry" : "explain"} ${item}`;
  return { record: "meter event", id: item, ...shown, last_error: reason, next };
};

const presentAll = (found: FoundRecords): readonly Fields[] => [
  ...found.accounts.map((record) =>
    presentFound(
      record.accountType,
      { ...record, id: record.accountId },
      { next: accountCommand(record) },
    ),
  ),
  ...found.keys.map(({ hint, ...record }) =>
    presentFound("API key", record, { starts_with: hint, next: accountCommand(record) }),
  ),
  ...found.meterEvents.map(presentFoundEvent),
  ...found.registrations.map(presentRegistration),
  ...found.donations.map((record) =>
    presentFound("donation", record, {
      ein: record.ein && formatEin(record.ein),
      next: record.refunded ? null : `impact refund ${record.id} --reason TEXT`,
    }),
  ),
];

const FIND_HELP = `
TEXT is an id of a registration, refund, donation, account or API key (as in the log);
the name of an organization or a store, a store's domain, a Stripe customer, or the
first characters of an API key; an idempotency key, an attribution, a value in metadata;
a shop's order (1001 also finds #1001), a customer's email, id or part of the name; or
the number or identifier of a meter event. Each record is shown with its owner, billing,
evidence and the next command to run.
If records name customers of a store, the audit log records how many.`;

/** Every record that is found costs several queries. */
const parseFindLimit = parserOf(wholeNumber(1, 1000), "a number from 1 to 1000");

export const defineFindCommand: Define = (command, cli) => {
  command
    .argument("<text>", "id, key, order, customer or other text to search for", parseSearchText)
    .option(...ACCOUNT_OPTION)
    .option("--limit <n>", "maximum records of each kind", parseFindLimit, 20)
    .option(...OPERATOR)
    .option(...REASON)
    .addHelpText("after", FIND_HELP)
    .action(async (text, { org, limit, ...operator }) => {
      const deps = await cli.openChange(operator);
      const accountId = await readAccountFilter(deps.db, org);
      const found = await findRecords(deps, { text, accountId, limit });
      const records = presentAll(found);
      cli.printResult({ records, has_more: found.hasMore }, () => {
        for (const [index, shown] of records.entries()) {
          cli.io.stdout.write(index === 0 ? "" : "\n");
          const present = Object.entries(shown).filter(
            ([, value]) => value !== null && value !== "",
          );
          cli.printDetails(Object.fromEntries(present));
        }
      });
      if (records.length === 0) {
        throw new DomainError("record_not_found", `Nothing found for ${JSON.stringify(text)}.`);
      }
      if (found.hasMore) {
        cli.say(
          `There are more records; these are the newest ${limit} of each kind. Raise --limit.`,
        );
      }
    });
};
