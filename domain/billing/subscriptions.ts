import { isActiveSubscription, KINDS } from "../accounts/accounts.ts";
import type { Kind } from "../accounts/accounts.ts";
import type { Period } from "./billingCycle.ts";

/** What the processor reports of an organization's subscription. */
export type SubscriptionState = {
  /** The processor's own word, such as `active` or `past_due`; `missing` if it does not know the subscription. */
  readonly status: string;
  /** The current period of each meter that the subscription has a price for; null without one. */
  readonly periods: Readonly<Record<Kind, Period | null>>;
  /** Whether it has the items of donations; null if their prices are not configured. */
  readonly hasDonationItems: boolean | null;
};

/** The status of a subscription that the processor does not know, for example because its customer was deleted. */
export const MISSING = "missing";

/** Returns what is wrong with a subscription, in short phrases. */
export const listSubscriptionProblems = ({
  status,
  meteredKinds,
}: {
  readonly status: string;
  readonly meteredKinds: readonly Kind[];
}): readonly string[] => [
  ...(isActiveSubscription(status) ? [] : [`is ${status}`]),
  ...(status === MISSING
    ? []
    : KINDS.filter((kind) => !meteredKinds.includes(kind)).map(
        (kind) => `has no price on the meter of ${kind}s`,
      )),
];
