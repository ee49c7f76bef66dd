import { z } from "zod";
import { isActiveSubscription } from "../accounts/accounts.rules.ts";
import type { SubscriptionStatus } from "../accounts/accounts.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import type { Period } from "./usage.rules.ts";

/** What a unit costs, as a decimal number of the currency's smallest unit, such as "45" cents. */
const unitPrice = z.strictObject({ amount: z.string(), currency: z.string() });
export type UnitPrice = z.output<typeof unitPrice>;

/** What is stored of a subscription, as JSON. */
export const storedSubscription = z.strictObject({
  /** The processor's own word, such as `active` or `past_due`; `missing` if it does not know the subscription. */
  status: z.string(),
  /** How collection is paused, in the processor's own word; null if it is not. */
  pausedBy: z.string().nullable(),
  /** The present or latest trial. */
  trial: z.strictObject({ start: z.coerce.date(), end: z.coerce.date() }).nullable(),
  /** The kinds whose meter the subscription has a price for. */
  meteredKinds: z.array(z.enum(KINDS)),
  /** The price of each kind; null without one, or if it is not the same for each unit. */
  unitPrices: z.record(z.enum(KINDS), unitPrice.nullable()),
  /** Whether it has the items of donations; null if their prices are not configured. */
  hasDonationItems: z.boolean().nullable(),
});

export type SubscriptionState = z.output<typeof storedSubscription> & {
  /** The processor's customer that it bills; null if the processor does not know the subscription. */
  readonly customerId: string | null;
  /** The current period of each kind; null without a price for it, or if its prices have different periods. */
  readonly periods: Readonly<Record<Kind, Period | null>>;
};

/** The status of a subscription that the processor does not know, for example because its customer was deleted. */
export const MISSING = "missing";

/** Returns whether a subscription bills nothing any more. */
export const hasEnded = (status: string): boolean =>
  status === "canceled" || status === "incomplete_expired";

/** What can keep an organization's usage or donations off its invoices. */
export const SUBSCRIPTION_PROBLEMS = [
  "inactive",
  "paused",
  "unpriced_meter",
  "no_donation_items",
] as const;

type SubscriptionProblem = {
  readonly kind: (typeof SUBSCRIPTION_PROBLEMS)[number];
  /** A phrase that follows "its subscription". */
  readonly text: string;
};

/**
 * Returns what is wrong with an organization's subscription. A kind without a price is a problem once it is used.
 * @param lostDonationItems whether the organization subscribed to donations and the items are gone
 */
export const listSubscriptionProblems = ({
  status,
  pausedBy,
  meteredKinds,
  usedKinds,
  lostDonationItems,
}: SubscriptionStatus & {
  readonly usedKinds: readonly Kind[];
  readonly lostDonationItems: boolean;
}): readonly SubscriptionProblem[] => {
  if (!isActiveSubscription(status)) {
    return [{ kind: "inactive", text: `is ${status}` }];
  }
  const problems: SubscriptionProblem[] = usedKinds
    .filter((kind) => !meteredKinds.includes(kind))
    .map((kind) => ({ kind: "unpriced_meter", text: `has no price on the meter of ${kind}s` }));
  if (pausedBy !== null) {
    const how = pausedBy.replaceAll("_", " ");
    problems.unshift({ kind: "paused", text: `has its collection paused (${how})` });
  }
  if (lostDonationItems) {
    problems.push({ kind: "no_donation_items", text: "no longer has the donation items" });
  }
  return problems;
};
