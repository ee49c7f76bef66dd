import { z } from "zod";
import { DomainError } from "../../runtime/errors.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";

/** Where charities are looked up; `catalogue` is the built-in one. */
export const CHARITY_PROVIDERS = ["catalogue", "everyorg", "change", "pledge"] as const;
export type CharityProviderName = (typeof CHARITY_PROVIDERS)[number];

/**
 * What follows if an organization's subscription is not active or paused, or lost the price of a kind's meter.
 * - `alert`: operators are alerted.
 * - `suspend`: in addition, live registrations that Stripe would not invoice are rejected.
 * - `keep`: nothing; the operator knows.
 */
export const SUBSCRIPTION_POLICIES = ["alert", "suspend", "keep"] as const;
export type SubscriptionPolicy = (typeof SUBSCRIPTION_POLICIES)[number];

/** Statuses in which a Stripe subscription's usage is invoiced and expected to be paid. */
export const ACTIVE_STATUSES = ["active", "trialing"] as const;

export const isActiveSubscription = (status: string): boolean =>
  ACTIVE_STATUSES.some((active) => active === status);

/** A subscription as the processor last returned it. */
export const subscriptionStatus = z.object({
  /** The processor's own word, such as `active` or `past_due`. */
  status: z.string(),
  /** How collection is paused, such as `void`; null if it is not. */
  pausedBy: z.string().nullable(),
  meteredKinds: z.array(z.enum(KINDS)).readonly(),
});
export type SubscriptionStatus = Readonly<z.output<typeof subscriptionStatus>>;

const suspended = (registrations: string, reason: string): DomainError =>
  new DomainError("subscription_inactive", `${registrations} are suspended because the ${reason}`);

/**
 * Returns why live registrations of a kind are suspended, or null. Usage that the subscription has no price for is never
 * invoiced, so it counts like usage of a subscription that has ended.
 * @param subscription that of an organization with the policy `suspend`; otherwise null
 */
export const findSuspension = (subscription: SubscriptionStatus | null, kind: Kind) => {
  if (subscription === null) {
    return null;
  }
  const { status, pausedBy, meteredKinds } = subscription;
  if (!isActiveSubscription(status)) {
    return suspended("registrations", `organization's subscription is ${status}`);
  }
  if (pausedBy !== null) {
    return suspended("registrations", "collection of the organization's subscription is paused");
  }
  return meteredKinds.includes(kind)
    ? null
    : suspended(
        `registrations of ${kind}s`,
        `organization's subscription has no price on the meter of ${kind}s`,
      );
};
