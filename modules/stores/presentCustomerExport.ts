import { shownIdOf } from "../records/recordIds.rules.ts";
import type { PersonalDonation, RegistrationWithReasons } from "./personalRecords.sql.ts";

const presentCommon = (record: RegistrationWithReasons | PersonalDonation) => ({
  id: shownIdOf(record),
  mode: record.mode,
  customer_name: record.customerName,
  customer_email: record.customerEmail,
  customer_id: record.customerId,
  order_id: record.orderId,
  refund_reasons: [...record.refundReasons],
  created_at: record.createdAt.toISOString(),
});

/** The JSON form of what a store's records say about a customer, the same in the API and on the command line. */
export const presentCustomerExport = ({
  registrations,
  donations,
  hasMore,
}: {
  readonly registrations: readonly RegistrationWithReasons[];
  readonly donations: readonly PersonalDonation[];
  readonly hasMore: boolean;
}) => ({
  registrations: registrations.map((registration) => ({
    ...presentCommon(registration),
    kind: registration.kind,
    count: registration.count,
    refunded_count: registration.refundedCount,
    notes: registration.notes,
  })),
  donations: donations.map((donation) => ({
    ...presentCommon(donation),
    amount_cents: donation.amountCents,
    charity_name: donation.charityName,
    refunded: donation.refunded,
    refunded_at: donation.refundedAt?.toISOString() ?? null,
  })),
  has_more: hasMore,
});
