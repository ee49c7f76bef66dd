import type { Owner } from "../records/owner.rules.ts";
import { findBillingPeriod, saveBillingPeriod } from "./billingPeriods.sql.ts";
import type { Subscription } from "./billingPeriods.sql.ts";
import type { Period } from "./billingCycle.rules.ts";
import { isWithin, monthlyCycle } from "./billingCycle.rules.ts";
import type { ProcessorName } from "./usage.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { UnavailableError } from "../../runtime/errors.rules.ts";
import { isProcessorUnusable } from "./processor.ts";
import { getAccount } from "../accounts/getAccount.ts";
import { getProcessor } from "./createBilling.ts";
import type { BillingContext } from "./context.ts";

/** A subscription can be changed at Stripe by hand; this is how long the change may go unnoticed. */
const MIRROR_MAXIMUM_AGE_MS = HOUR_MS;

const TIMEOUT_MS = 8000;

/** @throws UnavailableError if the processor cannot be used */
const readPeriod = async (read: () => Promise<Period | null>): Promise<Period | null> => {
  try {
    return await read();
  } catch (error) {
    throw isProcessorUnusable(error)
      ? new UnavailableError("the payment processor is temporarily unavailable, try again", {
          cause: error,
        })
      : error;
  }
};

/** The processor that bills an account's new usage, and the account's current billing cycle. */
export type ResolvedCycle = { readonly processor: ProcessorName; readonly cycle: Period | null };

/** Returns what is known without a call to Stripe: the cycle, or the subscription whose period only Stripe knows. */
const readStored = async (
  { db, clock, billing }: BillingContext,
  { accountId, mode, kind }: Owner,
): Promise<
  | { readonly known: ResolvedCycle }
  | { readonly processor: ProcessorName; readonly subscription: Subscription }
> => {
  const account = await getAccount(db, accountId);
  const now = clock.now();
  const processor = billing.processorFor(account, mode);
  if (processor === "ledger" || account.stripeSubscriptionId === null) {
    return { known: { processor, cycle: monthlyCycle(account.billingDay, now) } };
  }
  const subscription = { accountId, subscriptionId: account.stripeSubscriptionId, kind };
  const mirrored = await findBillingPeriod(db, subscription);
  return mirrored &&
    isWithin(mirrored, now) &&
    // A period from the future was read while the clock was fast.
    Math.abs(now.getTime() - mirrored.readAt.getTime()) < MIRROR_MAXIMUM_AGE_MS
    ? { known: { processor, cycle: mirrored } }
    : { processor, subscription };
};

/** Returns what `resolveBillingCycle` returns if that needs no call to Stripe, or null. */
export const findBillingCycle = async (
  context: BillingContext,
  stream: Owner,
): Promise<ResolvedCycle | null> => {
  const stored = await readStored(context, stream);
  return "known" in stored ? stored.known : null;
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
  const { db, clock, billing } = context;
  const { accountId, mode, kind } = stream;
  const stored = await readStored(context, stream);
  if ("known" in stored) {
    return stored.known;
  }
  const { processor, subscription } = stored;
  const readAt = clock.now();
  const period = await readPeriod(() =>
    getProcessor(billing, processor, mode).findCurrentPeriod(
      subscription,
      kind,
      AbortSignal.timeout(TIMEOUT_MS),
    ),
  );
  if (period === null) {
    return { processor, cycle: null };
  }
  // Just after a period's end Stripe may still return that period, also because clocks differ.
  if (!isWithin(period, clock.now())) {
    throw new UnavailableError(
      "the payment processor has not begun the current billing period yet, try again later",
      { cause: new Error(`Stripe returned no current billing period for account ${accountId}.`) },
    );
  }
  await db.transaction((transaction) =>
    saveBillingPeriod(transaction, subscription, period, readAt),
  );
  return { processor, cycle: period };
};
