import { setTimeout as sleep } from "node:timers/promises";
import { getAccount } from "../../accounts/getAccount.ts";
import { saveBillingPeriod } from "../billingPeriods.sql.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { ProcessorUnavailableError } from "../processor.ts";
import { listSubscriptionsToRead, saveSubscriptionState } from "./stripeSubscriptions.sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { SubscriptionState } from "../subscriptions.rules.ts";

const CALL_TIMEOUT_MS = 20_000;

/** Each read takes two calls, or some more; usage needs the rest of Stripe's rate limit. */
const INTERVAL_MS = 100;

/** An outage: each further call may take as long as its timeout. */
const MAXIMUM_UNAVAILABLE_IN_A_ROW = 3;

export type StripeSweep = {
  readonly read: number;
  /** What could not be read. */
  readonly failed: number;
};

export type SweepOptions = {
  readonly signal: AbortSignal;
  /** Called for each item that cannot be read; the others follow. */
  readonly onFailure: (id: string, error: unknown) => void;
  readonly intervalMs?: number;
};

/**
 * Reads many things of Stripe, one after another, at most ten a second.
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const sweepStripe = async <Item extends { readonly id: string }>(
  items: AsyncIterable<Item>,
  read: (item: Item, signal: AbortSignal) => Promise<void>,
  { signal, onFailure, intervalMs = INTERVAL_MS }: SweepOptions,
): Promise<StripeSweep> => {
  let [done, failed, unavailable] = [0, 0, 0];
  for await (const item of items) {
    try {
      await read(item, AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]));
      done += 1;
      unavailable = 0;
    } catch (error) {
      signal.throwIfAborted();
      failed += 1;
      onFailure(item.id, error);
      unavailable = error instanceof ProcessorUnavailableError ? unavailable + 1 : 0;
      if (unavailable === MAXIMUM_UNAVAILABLE_IN_A_ROW) {
        throw error;
      }
    }
    await sleep(intervalMs, undefined, { signal });
  }
  return { read: done, failed };
};

/**
 * Reads a subscription of an account at Stripe, and stores its state and its current billing periods.
 * @throws Error if Stripe is not configured or cannot be reached
 */
export const readSubscription = async (
  { db, clock, billing }: BillingContext,
  { accountId, subscriptionId }: { readonly accountId: string; readonly subscriptionId: string },
  signal: AbortSignal,
): Promise<SubscriptionState> => {
  const stripe = requireStripe(billing);
  // Read before the call: a change during the call makes the state older than it may be, never newer.
  const readAt = clock.now();
  const state = await stripe.readSubscription(subscriptionId, signal);
  await db.transaction(async (transaction) => {
    const own = { accountId, subscriptionId };
    const isStored = await saveSubscriptionState(transaction, own, state, readAt);
    for (const kind of KINDS) {
      const period = state.periods[kind];
      if (isStored && period !== null) {
        await saveBillingPeriod(transaction, { accountId, subscriptionId, kind }, period, readAt);
      }
    }
  });
  return state;
};

/** Reads the subscription that an account has. One without a subscription is skipped. */
export const refreshSubscription = async (
  context: BillingContext,
  accountId: string,
  signal: AbortSignal,
): Promise<void> => {
  const { stripeSubscriptionId: subscriptionId } = await getAccount(context.db, accountId);
  if (subscriptionId !== null) {
    await readSubscription(context, { accountId, subscriptionId }, signal);
  }
};

const PAGE = 100;

async function* listAccountsToRead(
  { db, clock }: BillingContext,
  readBefore: Date,
): AsyncGenerator<{ readonly id: string }, void, void> {
  let after: string | null = null;
  for (;;) {
    const ids: readonly string[] = await listSubscriptionsToRead(db, {
      readBefore,
      now: clock.now(),
      after,
      limit: PAGE,
    });
    yield* ids.map((id) => ({ id }));
    if (ids.length === 0) {
      return;
    }
    after = ids.at(-1) ?? null;
  }
}

/**
 * Reads every organization's subscription at Stripe that has not been read since a time. What has been read is stored, so a
 * repeated call continues.
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const sweepSubscriptions = (
  context: BillingContext,
  readBefore: Date,
  options: SweepOptions,
): Promise<StripeSweep> =>
  context.billing.stripe === null
    ? Promise.resolve({ read: 0, failed: 0 })
    : sweepStripe(
        listAccountsToRead(context, readBefore),
        ({ id }, signal) => refreshSubscription(context, id, signal),
        options,
      );
