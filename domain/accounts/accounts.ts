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
