import type { Kind } from "../accounts/accounts.ts";
import type { Period } from "../billing/billingCycle.ts";
import { isWithin } from "../billing/billingCycle.ts";
import { DomainError } from "../errors.ts";
import type { Registration } from "./registrations.ts";

/** What clients are told of a registration's refunds, and the id of the workflow that sees them through. */
export const refundIdOf = (registrationId: string): string => `refund-${registrationId}`;

/**
 * For how long a refund may have to wait until it is sent, a processor's outage for one. What Stripe leaves without it is
 * just longer than the longest month.
 */
const SENDING_MARGIN_MS = 3 * 24 * 60 * 60 * 1000;

/** What of an account's usage can still be taken back at an instant. */
export type RefundWindow = {
  readonly cycle: Period;
  /** How old usage may be for the processor, in milliseconds; null when it takes any. */
  readonly acceptedAgeMs: number | null;
  readonly now: Date;
};

/** A registration as far as it decides about its refund. */
export type RefundableRegistration = Pick<Registration, "count" | "refundedCount" | "createdAt"> & {
  readonly kind: Kind;
  /** False for an imported registration: another system billed it. */
  readonly hasUsage: boolean;
};

/**
 * How many units a refund takes back: what was asked for, or all that remain.
 * @throws DomainError usage_not_on_file, outside_billing_cycle, or request_invalid when more is asked for than remains
 */
export const decideRefund = (
  registration: RefundableRegistration,
  requestedCount: number | null,
  { cycle, acceptedAgeMs, now }: RefundWindow,
): number => {
  const { kind, createdAt } = registration;
  if (!registration.hasUsage) {
    throw new DomainError(
      "usage_not_on_file",
      `${kind} registration predates the enhanced refund system: no usage record on file`,
    );
  }
  if (!isWithin(cycle, createdAt)) {
    throw new DomainError(
      "outside_billing_cycle",
      `${kind} registration is outside the current billing cycle`,
    );
  }
  // A billing period may be longer than that, and the processor would refuse the refund's usage for good.
  if (
    acceptedAgeMs !== null &&
    now.getTime() - createdAt.getTime() > acceptedAgeMs - SENDING_MARGIN_MS
  ) {
    throw new DomainError(
      "outside_billing_cycle",
      `${kind} registration is too old: the payment processor could not take its usage back`,
    );
  }
  const remaining = registration.count - registration.refundedCount;
  if (remaining === 0) {
    throw new DomainError("request_invalid", `${kind} registration is already fully refunded`);
  }
  const count = requestedCount ?? remaining;
  if (count > remaining) {
    throw new DomainError("request_invalid", `count: only ${remaining} remain to be refunded`);
  }
  return count;
};
