import type { MeterEventState } from "./meterEvents.rules.ts";

/**
 * How far the billing of a registration, with its refunds, has come.
 * - `prepaid`: a store paid for it from its balance, so there is no usage.
 * - `imported`: another system billed it, so there is no usage.
 * - `pending`: usage is still to be reported.
 * - `reported`: the processor has the usage.
 * - `late`: it has the usage, but got it after the invoice of its period may have been finalized.
 * - `cancelled_out`: a refund took all usage back before it was reported.
 * - `failed`: usage needs an operator.
 * - `closed`: an operator decided that usage is never sent, or a document bills it.
 */
export type BillingStatus =
  | "prepaid"
  | "imported"
  | "pending"
  | "reported"
  | "late"
  | "cancelled_out"
  | "failed"
  | "closed";

/** The meter event of a usage fact. */
export type FactEvent = {
  readonly state: MeterEventState;
  /** The units that are sent; 0 if usage and refunds of its second add up to that. */
  readonly quantity: number;
  readonly isLate: boolean;
};

/**
 * Returns the status of a registration from the meter events of its usage facts: what needs attention first comes first.
 * If none of them was sent and units remain, refunds of other usage of its second were not sent because of these units: the
 * processor's sum has them.
 * @param events one for each fact; null for a fact that is not sealed yet
 */
export const billingStatusOf = (
  {
    isPrepaid,
    count,
    refundedCount,
  }: { readonly isPrepaid: boolean; readonly count: number; readonly refundedCount: number },
  events: readonly (FactEvent | null)[],
): BillingStatus => {
  if (events.length === 0) {
    return isPrepaid ? "prepaid" : "imported";
  }
  const sealed = events.filter((event) => event !== null);
  if (sealed.some(({ state }) => state === "failed")) {
    return "failed";
  }
  if (sealed.length < events.length || sealed.some(({ state }) => state === "pending")) {
    return "pending";
  }
  if (sealed.some(({ state }) => state === "closed")) {
    return "closed";
  }
  if (sealed.some(({ isLate }) => isLate)) {
    return "late";
  }
  return refundedCount < count || sealed.some(({ quantity }) => quantity !== 0)
    ? "reported"
    : "cancelled_out";
};

/**
 * What an API client sees of a billing status.
 * - `corrected`: refunds took usage back, and the processor has what remains.
 * - `not_billed`: there is no usage.
 */
export const USAGE_REPORT_STATES = [
  "pending",
  "reported",
  "corrected",
  "failed",
  "closed",
  "not_billed",
] as const;
export type UsageReportState = (typeof USAGE_REPORT_STATES)[number];

/** Returns the state of a registration's usage as API clients see it. */
export const reportStateOf = (
  status: BillingStatus,
  { refundedCount }: { readonly refundedCount: number },
): UsageReportState => {
  switch (status) {
    case "prepaid":
    case "imported":
      return "not_billed";
    case "reported":
    case "late":
      return refundedCount > 0 ? "corrected" : "reported";
    case "cancelled_out":
      return "corrected";
    case "pending":
    case "failed":
    case "closed":
      return status;
  }
};
