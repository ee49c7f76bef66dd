import type { CommonQueryMethods } from "slonik";
import { getAccount } from "../accounts/getAccount.ts";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { listPayers } from "./billingPeriods.sql.ts";
import { readSubscription } from "./processorEvents/readSubscription.ts";
import { hasEnded } from "./subscriptions.rules.ts";
import type { Period, ProcessorName } from "./usage.rules.ts";
import { isWithin, monthlyCycle } from "./usage.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { UnavailableError } from "../../runtime/errors.rules.ts";
import { askForClient } from "./processor.ts";
import type { BillingContext } from "./context.ts";

/** A subscription can be changed at Stripe by hand; this is how long the change may go unnoticed. */
const MIRROR_MAXIMUM_AGE_MS = HOUR_MS;

/**
 * Returns the current period of a kind in an account's subscription as Stripe has it; null if the subscription has ended.
 * @throws UnavailableError if Stripe cannot be used
 * @throws Error if the subscription has no price for the kind, or several with different periods
 */
const readPeriod = async (
  context: BillingContext,
  { accountId, kind }: Owner,
): Promise<Period | null> => {
  const { stripeSubscriptionId: subscriptionId } = await getAccount(context.db, accountId);
  if (subscriptionId === null) {
    throw new UnavailableError("the subscription has just changed, try again");
  }
  const { status, periods } = await askForClient((signal) =>
    readSubscription(context, { accountId, subscriptionId }, signal),
  );
  const period = periods[kind];
  if (hasEnded(status)) {
    return null;
  }
  if (period === null) {
    throw new Error(
      `Stripe's subscription ${subscriptionId} (${status}) has no single current period of ${kind}s.`,
    );
  }
  return period;
};

/** The processor that bills an account's new usage, and the account's current billing cycle. */
export type ResolvedCycle = { readonly processor: ProcessorName; readonly cycle: Period | null };

/** Returns what `resolveBillingCycle` returns of different streams, by `ownerKey`, without those that need a call to Stripe. */
export const findBillingCycles = async (
  { db, clock, billing }: Pick<BillingContext, "clock" | "billing"> & { db: CommonQueryMethods },
  streams: readonly Owner[],
): Promise<ReadonlyMap<string, ResolvedCycle>> => {
  const payers = new Map(
    (await listPayers(db, streams)).map((payer) => [`${payer.accountId}/${payer.kind}`, payer]),
  );
  const now = clock.now();
  const found = new Map<string, ResolvedCycle>();
  for (const stream of streams) {
    const { accountId, mode, kind } = stream;
    const payer = payers.get(`${accountId}/${kind}`);
    if (!payer) {
      // A bug: accounts are never deleted.
      throw new Error(`Account ${accountId} does not exist.`);
    }
    const { billingDay, stripeSubscriptionId, period } = payer;
    const processor = billing.processorFor(payer, mode);
    if (processor === "ledger" || stripeSubscriptionId === null) {
      found.set(ownerKey(stream), { processor, cycle: monthlyCycle(billingDay, now) });
    } else if (
      period !== null &&
      isWithin(period, now) &&
      // A period from the future was read while the clock was fast.
      Math.abs(now.getTime() - period.readAt.getTime()) < MIRROR_MAXIMUM_AGE_MS
    ) {
      found.set(ownerKey(stream), { processor, cycle: period });
    }
  }
  return found;
};

/**
 * Returns the processor that bills an account's new usage, and the account's current billing cycle. The cycle is the
 * period of the account's Stripe subscription, or, without one, the month from the account's billing day. It is null after
 * the subscription has ended: Stripe has invoiced its usage. A billing cycle is never guessed.
 * @throws UnavailableError if the period is Stripe's, and Stripe cannot be reached, is not configured, is not what the
 * deployment bills through, or returns a period that is not current
 */
export const resolveBillingCycle = async (
  context: BillingContext,
  stream: Owner,
): Promise<ResolvedCycle> => {
  const known = (await findBillingCycles(context, [stream])).get(ownerKey(stream));
  if (known) {
    return known;
  }
  const period = await readPeriod(context, stream);
  if (period === null) {
    return { processor: "stripe", cycle: null };
  }
  // Just after a period's end Stripe may still return that period, also because clocks differ.
  if (!isWithin(period, context.clock.now())) {
    throw new UnavailableError(
      "the payment processor has not begun the current billing period yet, try again later",
      {
        cause: new Error(
          `Stripe returned no current billing period for account ${stream.accountId}.`,
        ),
      },
    );
  }
  return { processor: "stripe", cycle: period };
};
