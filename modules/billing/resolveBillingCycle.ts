import { getAccount } from "../accounts/getAccount.ts";
import { MODES, ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { listPayers } from "./billingPeriods.sql.ts";
import { readSubscription } from "./processorEvents/readSubscription.ts";
import { hasEnded } from "./subscriptions.rules.ts";
import { ACCEPTED_AGE_MS, isWithin, monthlyCycle } from "./usage.rules.ts";
import type { BillingCycle } from "./usage.rules.ts";
import type { InTransaction } from "../../runtime/context.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { UnavailableError } from "../../runtime/errors.rules.ts";
import { askForClient } from "./processor.ts";
import type { BillingContext } from "./context.ts";

/** A subscription can be changed at Stripe by hand; this is how long the change may go unnoticed. */
const MIRROR_MAXIMUM_AGE_MS = HOUR_MS;

/**
 * Returns the current billing cycles of streams, by `ownerKey`, in both modes, without those that need a call to Stripe: the
 * period of the account's subscription, or, without one, the month from its billing day.
 */
export const findBillingCycles = async (
  { db, clock, billing }: InTransaction<BillingContext>,
  streams: readonly Owner[],
): Promise<ReadonlyMap<string, BillingCycle>> => {
  const now = clock.now();
  const found = new Map<string, BillingCycle>();
  for (const payer of await listPayers(db, streams)) {
    const { billingDay, stripeSubscriptionId, period } = payer;
    const isCurrent =
      period !== null &&
      isWithin(period, now) &&
      now.getTime() - period.readAt.getTime() < MIRROR_MAXIMUM_AGE_MS;
    for (const mode of MODES) {
      const { processor } = billing.targetFor(payer, mode);
      const isMonthly = processor === "ledger" || stripeSubscriptionId === null;
      const cycle = isMonthly ? monthlyCycle(billingDay, now) : period;
      if (isMonthly || isCurrent) {
        found.set(ownerKey({ ...payer, mode }), {
          cycle,
          acceptedAgeMs: ACCEPTED_AGE_MS[processor],
        });
      }
    }
  }
  return found;
};

/**
 * Returns a stream's current billing cycle. What is not stored, or no longer current, is read from Stripe, so it is no part
 * of a transaction. The cycle is null after the subscription has ended: Stripe has invoiced its usage. It is never guessed.
 * @throws UnavailableError if Stripe cannot be used, or returns a period that is not current
 * @throws Error if the subscription has no price for the kind, or several with different periods
 */
export const resolveBillingCycle = async (
  context: BillingContext,
  stream: Owner,
): Promise<BillingCycle> => {
  const known = (await findBillingCycles(context, [stream])).get(ownerKey(stream));
  if (known) {
    return known;
  }
  const { accountId, kind } = stream;
  const { stripeSubscriptionId: subscriptionId } = await getAccount(context.db, accountId);
  if (subscriptionId === null) {
    throw new UnavailableError("the subscription has just changed, try again");
  }
  const { status, periods } = await askForClient((signal) =>
    readSubscription(context, { accountId, subscriptionId }, signal),
  );
  const cycle = hasEnded(status) ? null : periods[kind];
  if (cycle === null && !hasEnded(status)) {
    throw new Error(
      `Stripe's subscription ${subscriptionId} (${status}) has no single current period of ${kind}s.`,
    );
  }
  // Just after a period's end Stripe may still return that period, also because clocks differ.
  if (cycle !== null && !isWithin(cycle, context.clock.now())) {
    throw new UnavailableError(
      "the payment processor has not begun the current billing period yet, try again later",
      { cause: new Error(`Stripe returned no current billing period for account ${accountId}.`) },
    );
  }
  return { cycle, acceptedAgeMs: ACCEPTED_AGE_MS.stripe };
};
