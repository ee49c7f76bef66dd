import { DomainError } from "../errors.ts";

export type AccountType = "organization" | "store";

/** `live` records come from production keys and are billed; `test` records never leave the built-in ledger. */
export const MODES = ["live", "test"] as const;
export type Mode = (typeof MODES)[number];

/** Whose records: an account never sees another's, nor one mode the other's. */
export type AccountMode = { readonly accountId: string; readonly mode: Mode };

/** An impact action; also the meter that its usage is reported to. */
export const KINDS = ["tree", "bottle"] as const;
export type Kind = (typeof KINDS)[number];

/**
 * A subscription is somebody's.
 * @throws DomainError request_invalid for a Stripe subscription without a Stripe customer
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
