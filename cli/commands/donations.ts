import type { Command } from "commander";
import { findDonationDetails } from "../../modules/charities/donations.sql.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { getRecordId } from "../../modules/records/getRecordId.ts";
import { recordOwnerOption } from "../accountOptions.ts";
import type { RecordOwnerOptions } from "../accountOptions.ts";
import { parseRecordId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import type { JsonOption } from "../output/print.ts";
import { printDetails } from "../output/printDetails.ts";

export const addDonationCommands = (donation: Command, { io, connections }: CliContext): void => {
  donation
    .command("show")
    .description("Show a donation and its refund")
    .argument("<id>", "id of the donation", parseRecordId)
    .addOption(recordOwnerOption())
    .action(async (given: string, { org, json }: RecordOwnerOptions & JsonOption) => {
      const db = await connections.database();
      const found = await findDonationDetails(
        db,
        await getRecordId(db, "donation", given, org ?? null),
      );
      if (!found) {
        throw recordNotFound("donation", given);
      }
      printDetails(
        { io, json },
        {
          id: shownIdOf(found),
          amount_cents: found.amountCents,
          currency: "USD",
          ein: found.ein && formatEin(found.ein),
          nonprofit_id: found.nonprofitId,
          charity_provider: found.charityProvider,
          charity_name: found.charityName,
          created_at: found.createdAt,
          idempotency_key: found.idempotencyKey,
          attribution: found.attribution,
          metadata: found.metadata,
          refunded: found.refunded,
          account_id: found.accountId,
          mode: found.mode,
          refunded_at: found.refundedAt,
          refund_reason: found.refundReason,
          refund_idempotency_key: found.refundIdempotencyKey,
          refund_metadata: found.refundMetadata,
        },
      );
    });
};
