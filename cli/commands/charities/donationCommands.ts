import type { Command } from "commander";
import { findDonationDetails, listDonations } from "../../../db/charities/donations.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { formatEin } from "../../../domain/charities/charities.ts";
import type { Donation } from "../../../domain/charities/donations.ts";
import { DomainError } from "../../../domain/errors.ts";
import { formatDollars } from "../../../domain/money.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { parseId, parseLimit, parseMode } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";

const einOf = ({ ein }: Donation): string | null => ein && formatEin(ein);

/** A donation as programs read it. */
const presentDonation = (donation: Donation) => ({
  id: donation.id,
  amount_cents: donation.amountCents,
  currency: "USD",
  ein: einOf(donation),
  nonprofit_id: donation.nonprofitId,
  charity_provider: donation.charityProvider,
  charity_name: donation.charityName,
  created_at: donation.createdAt,
  idempotency_key: donation.idempotencyKey,
  attribution: donation.attribution,
  metadata: donation.metadata,
  refunded: donation.refunded,
});

type ListOptions = {
  readonly org: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly json?: true;
};

const list = async (
  { io, connections }: Context,
  { org, mode, limit, json }: ListOptions,
): Promise<void> => {
  const db = await connections.database();
  await getOrganization(db, org);
  const owner = { accountId: org, mode };
  // One more than is shown tells whether there are more.
  const found = await listDonations(db, owner, {}, { offset: 0, limit: limit + 1 });
  const donations = found.slice(0, limit);
  if (json) {
    printJson(io, donations.map(presentDonation));
  } else {
    printTable(
      io,
      ["id", "USD", "charity", "EIN", "created", "refunded"],
      donations.map((donation) => [
        donation.id,
        formatDollars(donation.amountCents),
        donation.charityName,
        einOf(donation),
        donation.createdAt,
        donation.refunded,
      ]),
    );
  }
  if (found.length > limit) {
    say(io, `There are more than these ${limit}; --limit shows them.`);
  }
};

const show = async (
  { io, connections }: Context,
  id: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const donation = await findDonationDetails(await connections.database(), id);
  if (!donation) {
    throw new DomainError("record_not_found", `there is no donation ${id}`);
  }
  const { accountId, mode, refundedAt, refundReason, refundIdempotencyKey, refundMetadata } =
    donation;
  if (json) {
    printJson(io, {
      ...presentDonation(donation),
      account_id: accountId,
      mode,
      refunded_at: refundedAt,
      refund_reason: refundReason,
      refund_idempotency_key: refundIdempotencyKey,
      refund_metadata: refundMetadata,
    });
    return;
  }
  printRecord(io, {
    id: donation.id,
    account: accountId,
    mode,
    USD: formatDollars(donation.amountCents),
    charity: donation.charityName,
    EIN: einOf(donation),
    "nonprofit id": `${donation.nonprofitId} (${donation.charityProvider})`,
    created: donation.createdAt,
    "idempotency key": donation.idempotencyKey,
    attribution: donation.attribution,
    metadata: JSON.stringify(donation.metadata),
    refunded: refundedAt,
    "refund reason": refundReason,
    "refund idempotency key": refundIdempotencyKey,
    "refund metadata": refundMetadata && JSON.stringify(refundMetadata),
  });
};

export const addDonationCommands = (program: Command, context: Context): void => {
  const donation = program.command("donation").description("donations to charities");
  donation
    .command("list")
    .description("list an organization's donations, newest first")
    .requiredOption("--org <id>", "the organization", parseId)
    .option("--mode <live|test>", "of which key", parseMode, "live")
    .option("--limit <count>", "how many at most", parseLimit, 100)
    .option("--json", "print JSON")
    .action((options: ListOptions) => list(context, options));
  donation
    .command("show")
    .description("show a donation, and its refund")
    .argument("<id>", "the donation", parseId)
    .option("--json", "print JSON")
    .action((id: string, options: { readonly json?: true }) => show(context, id, options));
};
