import { invalidRequest } from "../../runtime/errors.rules.ts";
import { findDonationDetails } from "../charities/donations.sql.ts";
import { refundDonations } from "../charities/refundDonations.ts";
import { listRecordIds } from "../records/ownedRecords.sql.ts";
import { findRegistration } from "../registrations/registrations.sql.ts";
import { recordNotFound, requireOneRecord } from "../records/recordIds.rules.ts";
import { refundRegistration } from "../registrations/refundRegistration.ts";
import { refundStoreRegistration } from "../stores/refundFromStores.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import { resultOfOne } from "../records/batches.rules.ts";

type UnitRefund = {
  /** Null refunds all units that remain. */
  readonly count: number | null;
  readonly reason: string;
  /** Null for a refund that is not repeated. */
  readonly idempotencyKey: string | null;
  readonly isDryRun: boolean;
};

type RefundContext = BillingContext & OperatorContext;

/** Refunds units of a registration: an organization's usage is taken back, a store gets the price back. */
const refundUnits = async (context: RefundContext, id: string, refund: UnitRefund) => {
  const registration = await findRegistration(context.db, id);
  if (!registration) {
    throw recordNotFound("registration", id);
  }
  const request = { ...refund, id };
  const { refundedCount, replayed } =
    registration.accountType === "store"
      ? await refundStoreRegistration(context, registration, request, refund)
      : await refundRegistration(context, registration, request, refund);
  return { registration, refundedCount, replayed };
};

const refundDonation = async (context: RefundContext, id: string, refund: UnitRefund) => {
  const donation = await findDonationDetails(context.db, id);
  if (!donation) {
    throw recordNotFound("donation", id);
  }
  const { count, reason, idempotencyKey, isDryRun } = refund;
  if (count !== null || idempotencyKey !== null) {
    throw invalidRequest("a donation is refunded whole and once, without a count and a key");
  }
  const request = { id, reason, idempotencyKey, metadata: {} };
  const { replayed } = isDryRun
    ? { replayed: donation.refunded }
    : resultOfOne(await refundDonations(context, donation, [request], true));
  return { donation, replayed };
};

/**
 * Refunds any account's registration or donation for an operator.
 * @param refund.accountId the account that has the record; null for any
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 */
export const refundRecord = async (
  context: RefundContext,
  {
    id: given,
    accountId,
    ...refund
  }: UnitRefund & { readonly id: string; readonly accountId: string | null },
) => {
  const registrations = await listRecordIds(context.db, "registration", given, accountId);
  const donations = await listRecordIds(context.db, "donation", given, accountId);
  const id = requireOneRecord("record", given, [...registrations, ...donations]);
  return donations.includes(id)
    ? refundDonation(context, id, refund)
    : refundUnits(context, id, refund);
};

export type RefundedRecord = Awaited<ReturnType<typeof refundRecord>>;
