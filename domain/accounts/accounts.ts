import { DomainError } from "../errors.ts";

export type AccountType = "organization" | "store";

/** Records of production keys are `live` and billed; `test` records never leave the built-in ledger. */
export const MODES = ["live", "test"] as const;
export type Mode = (typeof MODES)[number];

/** The owner of records. Records of other accounts and of the other mode are invisible to it. */
export type AccountMode = { readonly accountId: string; readonly mode: Mode };

/** The kinds of impact actions, which are also the meters that usage is reported to. */
export const KINDS = ["tree", "bottle"] as const;
export type Kind = (typeof KINDS)[number];

/**
 * What follows if an organization's subscription is not active.
 * - `alert`: operators are alerted.
 * - `suspend`: in addition, live registrations are rejected.
 * - `keep`: nothing; the operator knows.
 */
export const SUBSCRIPTION_POLICIES = ["alert", "suspend", "keep"] as const;
export type SubscriptionPolicy = (typeof SUBSCRIPTION_POLICIES)[number];

/** Statuses in which a Stripe subscription's usage is invoiced and expected to be paid. */
export const ACTIVE_STATUSES = ["active", "trialing"] as const;

export const isActiveSubscription = (status: string): boolean =>
  ACTIVE_STATUSES.some((active) => active === status);

/**
 * Checks that live registrations are not suspended.
 * @param suspendedBy the status of the subscription that suspends them; null if none does
 * @throws DomainError subscription_inactive
 */
export const requireNotSuspended = ({
  suspendedBy,
}: {
  readonly suspendedBy: string | null;
}): void => {
  if (suspendedBy !== null) {
    throw new DomainError(
      "subscription_inactive",
      `registrations are suspended because the organization's subscription is ${suspendedBy}`,
    );
  }
};

/**
 * Checks that a Stripe subscription comes with its Stripe customer.
 * @throws DomainError request_invalid
 */
export const requireCustomerOfSubscription = ({
  stripeCustomerId,
  stripeSubscriptionId,
}: {
  readonly stripeCustomerId: string | null;
  readonly stripeSubscriptionId: string | null;
}): void => {
  if (stripeSubscriptionId !== null && stripeCustomerId === null) {
    throw new DomainError("request_invalid", "a Stripe subscription requires a Stripe customer");
  }
};
