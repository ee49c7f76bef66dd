import { findDonationDetails } from "../../../db/charities/donations.ts";
import { formatCents } from "../../../domain/money.ts";
import { recordNotFound, shownIdOf } from "../../../domain/recordIds.ts";
import { getRecordId } from "../../../services/getRecordId.ts";
import type { CliContext } from "../../context.ts";
import { printJson, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import type { RecordOwnerOptions } from "../../accountOptions.ts";
import { einOf, presentDonation } from "./presentDonation.ts";

export type ShowOptions = RecordOwnerOptions & JsonOption;

export const showDonation = async (
  { io, connections }: CliContext,
  given: string,
  { org, json }: ShowOptions,
): Promise<void> => {
  const db = await connections.database();
  const donation = await findDonationDetails(
    db,
    await getRecordId(db, "donation", given, org ?? null),
  );
  if (!donation) {
    throw recordNotFound("donation", given);
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
    id: shownIdOf(donation),
    account: accountId,
    mode,
    amount: formatCents(donation.amountCents),
    charity: donation.charityName,
    EIN: einOf(donation),
    "nonprofit id": `${donation.nonprofitId} (${donation.charityProvider})`,
    created: donation.createdAt,
    "idempotency key": donation.idempotencyKey,
    attribution: donation.attribution,
    metadata: JSON.stringify(donation.metadata),
    refunded: donation.refunded,
    "refunded at": refundedAt,
    "refund reason": refundReason,
    "refund idempotency key": refundIdempotencyKey,
    "refund metadata": refundMetadata && JSON.stringify(refundMetadata),
  });
};
