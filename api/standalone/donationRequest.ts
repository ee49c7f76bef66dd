import type { z } from "zod";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { CharityIds } from "../../modules/charities/charities.rules.ts";
import type { Donation, DonationRequest } from "../../modules/charities/donations.rules.ts";
import { donationRefundId } from "../../modules/charities/donations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { presentDonation } from "../../modules/charities/presentDonation.rules.ts";
import type { DonationRefundRequest } from "../../modules/charities/refundDonation.ts";
import type { donateBody, donateResponse, refundBody, refundResponse } from "./donationSchemas.ts";

/*
 * Requests for donations and their refunds, alone and in batches.
 */

export const CHARITY_REQUIRED = "one of ein and nonprofit_id is required";
export const DONATION_ID_REQUIRED = "donation id is required";

const charityOf = ({
  ein = null,
  nonprofit_id = null,
}: z.output<typeof donateBody>): CharityIds => {
  if (nonprofit_id !== null) {
    return { ein, nonprofitId: nonprofit_id };
  }
  if (ein !== null) {
    return { ein, nonprofitId: null };
  }
  throw invalidRequest(CHARITY_REQUIRED);
};

/** @throws DomainError request_invalid if the body names no charity */
export const donationRequestOf = (
  caller: Caller,
  body: z.output<typeof donateBody>,
): DonationRequest => ({
  ...accountModeOf(caller),
  amountCents: body.amount_cents,
  charity: charityOf(body),
  charityName: body.charity_name ?? null,
  idempotencyKey: body.idempotency_key ?? null,
  attribution: body.attribution ?? "",
  metadata: body.metadata ?? {},
});

export const presentDonated = (
  donation: Donation,
  totalDonations: number,
): z.output<typeof donateResponse> => {
  const details = presentDonation(donation);
  return {
    donation_id: details.id,
    amount_cents: details.amount_cents,
    charity_name: details.charity_name,
    ein: details.ein,
    nonprofit_id: details.nonprofit_id,
    total_donations: totalDonations,
    donation_details: [details],
  };
};

export const refundRequestOf = (body: z.output<typeof refundBody>): DonationRefundRequest => ({
  id: body.id,
  reason: body.reason ?? null,
  idempotencyKey: body.idempotency_key ?? null,
  metadata: body.metadata ?? {},
});

export const presentDonationRefund = (
  donation: Donation,
  totalDonations: number,
): z.output<typeof refundResponse> => ({
  refunded_amount_cents: donation.amountCents,
  total_donations: totalDonations,
  refund_details: [presentDonation(donation)],
  refund_id: donationRefundId(shownIdOf(donation)),
});
