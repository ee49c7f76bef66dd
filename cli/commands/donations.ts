import type { Command } from "commander";
import { findDonationDetails, listDonations } from "../../modules/charities/donations.sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import type { Donation } from "../../modules/charities/donations.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { getOrganization } from "../../modules/accounts/getAccount.ts";
import { getRecordId } from "../../modules/records/getRecordId.ts";
import { recordOwnerOption } from "../accountOptions.ts";
import type { RecordOwnerOptions } from "../accountOptions.ts";
import { parseId, parseLimit, parseMode, parseRecordId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { printList, sayIfMore } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";
import { printDetails } from "../output/printDetails.ts";

const einOf = ({ ein }: Donation): string | null => ein && formatEin(ein);

/** A donation in the CLI's JSON output. */
const presentDonation = (donation: Donation) => ({
  id: shownIdOf(donation),
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

const addListCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("list")
    .description("List an organization's donations, newest first")
    .requiredOption("--org <id>", "id of the organization", parseId)
    .option("--mode <live|test>", "mode of the donations", parseMode, "live")
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async ({ org, mode, limit, json }: ListOptions) => {
      const db = await connections.database();
      await getOrganization(db, org);
      const owner = { accountId: org, mode };
      const found = await listDonations(db, owner, {}, { offset: 0, limit: limit + 1 });
      printList({ io, json }, found.slice(0, limit), presentDonation, {
        id: shownIdOf,
        amount: (donation) => formatCents(donation.amountCents),
        charity: (donation) => donation.charityName,
        EIN: einOf,
        created: (donation) => donation.createdAt,
        refunded: (donation) => donation.refunded,
      });
      sayIfMore(io, found.length, limit);
    });
};

const addShowCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("show")
    .description("Show a donation and its refund")
    .argument("<id>", "id of the donation", parseRecordId)
    .addOption(recordOwnerOption())
    .action(async (given: string, { org, json }: RecordOwnerOptions & JsonOption) => {
      const db = await connections.database();
      const donation = await findDonationDetails(
        db,
        await getRecordId(db, "donation", given, org ?? null),
      );
      if (!donation) {
        throw recordNotFound("donation", given);
      }
      printDetails(
        { io, json },
        {
          ...presentDonation(donation),
          account_id: donation.accountId,
          mode: donation.mode,
          refunded_at: donation.refundedAt,
          refund_reason: donation.refundReason,
          refund_idempotency_key: donation.refundIdempotencyKey,
          refund_metadata: donation.refundMetadata,
        },
      );
    });
};

export const addDonationCommands = (donation: Command, context: CliContext): void => {
  addListCommand(donation, context);
  addShowCommand(donation, context);
};
