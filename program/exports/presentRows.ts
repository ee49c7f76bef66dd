import type { BalanceEntry } from "../../db/stores/balances.ts";
import type { StoreDonation } from "../../db/stores/storeDonations.ts";
import type { Kind } from "../../domain/accounts/accounts.ts";
import type { Period } from "../../domain/billing/billingCycle.ts";
import type { UsageReportState } from "../../domain/billing/billingStatus.ts";
import { formatEin } from "../../domain/charities/charities.ts";
import type { Donation } from "../../domain/charities/donations.ts";
import { centsToDollars } from "../../domain/money.ts";
import { shownIdOf } from "../../domain/recordIds.ts";
import type { ImpactRecord } from "../../domain/stores/customers.ts";

/*
 * The rows of lists as clients and exports show them, and the columns that CSV has. PostgreSQL writes the rows of an
 * organization's trees and bottles.
 */

export const REGISTRATION_COLUMNS = [
  "id",
  "count",
  "fractional_count",
  "created_at",
  "idempotency_key",
  "metadata",
  "attribution",
  "refunded",
  "refunded_count",
] as const;

export const USAGE_COLUMNS = [
  "registration_id",
  "kind",
  "state",
  "count",
  "refunded_count",
  "created_at",
  "period.start",
  "period.end",
] as const;

export const presentUsage = (report: {
  readonly id: string;
  readonly importedId: string | null;
  readonly kind: Kind;
  readonly state: UsageReportState;
  readonly count: number;
  readonly refundedCount: number;
  readonly createdAt: Date;
  readonly period: Period | null;
}) => ({
  registration_id: shownIdOf(report),
  kind: report.kind,
  state: report.state,
  count: report.count,
  refunded_count: report.refundedCount,
  created_at: report.createdAt.toISOString(),
  period: report.period && {
    start: report.period.start.toISOString(),
    end: report.period.end.toISOString(),
  },
});

export const DONATION_COLUMNS = [
  "id",
  "amount_cents",
  "currency",
  "ein",
  "nonprofit_id",
  "charity_name",
  "created_at",
  "idempotency_key",
  "attribution",
  "metadata",
  "refunded",
] as const;

export const presentDonation = (donation: Donation) => ({
  id: shownIdOf(donation),
  amount_cents: donation.amountCents,
  currency: "USD" as const,
  ein: donation.ein === null ? "" : formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  charity_name: donation.charityName,
  created_at: donation.createdAt.toISOString(),
  ...(donation.idempotencyKey === null ? {} : { idempotency_key: donation.idempotencyKey }),
  attribution: donation.attribution,
  metadata: donation.metadata,
  refunded: donation.refunded,
});

export const STORE_RECORD_COLUMNS = [
  "id",
  "count",
  "refunded_count",
  "customer_name",
  "customer_email",
  "customer_id",
  "order_id",
  "notes",
  "created_at",
] as const;

export const presentStoreRecord = (record: ImpactRecord) => ({
  id: shownIdOf(record),
  count: record.count,
  refunded_count: record.refundedCount,
  customer_name: record.customerName ?? "",
  customer_email: record.customerEmail ?? "",
  customer_id: record.customerId ?? "",
  order_id: record.orderId ?? "",
  notes: record.notes ?? "",
  created_at: record.position,
});

export const STORE_DONATION_COLUMNS = [
  "id",
  "amount",
  "amount_cents",
  "currency",
  "charity_name",
  "ein",
  "nonprofit_id",
  "customer_name",
  "customer_email",
  "customer_id",
  "order_id",
  "refunded",
  "created_at",
] as const;

export const presentStoreDonation = (donation: StoreDonation) => ({
  id: shownIdOf(donation),
  amount: centsToDollars(donation.amountCents),
  amount_cents: donation.amountCents,
  currency: "USD" as const,
  charity_name: donation.charityName,
  ein: donation.ein === null ? "" : formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  customer_name: donation.customerName ?? "",
  customer_email: donation.customerEmail ?? "",
  customer_id: donation.customerId ?? "",
  order_id: donation.orderId ?? "",
  refunded: donation.refunded,
  created_at: donation.position,
});

export const BALANCE_COLUMNS = [
  "id",
  "kind",
  "amount_cents",
  "balance_cents",
  "quantity",
  "record_id",
  "reference",
  "note",
  "created_at",
] as const;

export const presentBalanceEntry = (entry: BalanceEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.recordId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});
