import { z } from "zod";
import type { Kind } from "../records/owner.rules.ts";
import type { BillingCycle } from "../billing/usage.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { coreRow } from "./registrations.rules.ts";

/**
 * How long sending a refund may be delayed, for example by an outage of the processor. It leaves slightly more than the
 * longest month of the 35 days for which Stripe accepts usage.
 */
const SENDING_MARGIN_MS = 3 * DAY_MS;

export const lockedRegistration = coreRow.extend({
  /** False for an imported registration, which another system billed, and for a store's. */
  hasUsage: z.boolean(),
  /** What a store has paid for each unit; null for an organization's or an imported one. */
  unitPriceCents: z.int().nullable(),
});
export type LockedRegistration = Readonly<z.output<typeof lockedRegistration>>;

export type RefundableRegistration = Omit<LockedRegistration, "id" | "importedId"> & {
  readonly kind: Kind;
};

const outsideCycle = (message: string): DomainError =>
  new DomainError("outside_billing_cycle", message);

/** @throws DomainError usage_not_on_file or outside_billing_cycle */
const requireRefundableUsage = (
  { kind, createdAt, hasUsage }: RefundableRegistration,
  window: BillingCycle | null,
  now: Date,
): void => {
  if (!hasUsage || window === null) {
    throw new DomainError(
      "usage_not_on_file",
      `${kind} registration predates the enhanced refund system: no usage record on file`,
    );
  }
  // A registration after the cycle is of the next one: the clock of the process that made it is ahead.
  if (window.cycle === null || createdAt < window.cycle.start) {
    throw outsideCycle(`${kind} registration is outside the current billing cycle`);
  }
  const { acceptedAgeMs } = window;
  // A billing period can be longer than the accepted age; the processor would then reject the refund's usage.
  if (
    acceptedAgeMs !== null &&
    now.getTime() - createdAt.getTime() > acceptedAgeMs - SENDING_MARGIN_MS
  ) {
    throw outsideCycle(
      `${kind} registration is too old: the payment processor would reject the refund of its usage`,
    );
  }
};

/**
 * @param requestedCount null: all that remain
 * @param window null for a registration without usage, of which it decides nothing
 * @throws DomainError usage_not_on_file, outside_billing_cycle, or request_invalid if fewer units remain
 */
export const decideRefund = (
  registration: RefundableRegistration,
  requestedCount: number | null,
  window: BillingCycle | null,
  now: Date,
): number => {
  if (registration.unitPriceCents === null) {
    requireRefundableUsage(registration, window, now);
  }
  const { kind } = registration;
  const remaining = registration.count - registration.refundedCount;
  if (remaining === 0) {
    throw invalidRequest(`${kind} registration is already fully refunded`);
  }
  const count = requestedCount ?? remaining;
  if (count > remaining) {
    throw invalidRequest(`count: only ${remaining} can still be refunded`);
  }
  return count;
};
