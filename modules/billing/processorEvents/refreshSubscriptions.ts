import { setTimeout as sleep } from "node:timers/promises";
import { listSubscriptionsToRead, saveSubscriptionState } from "./stripeSubscriptions.sql.ts";
import { ProcessorUnavailableError } from "../processor.ts";
import type { BillingContext } from "../context.ts";
import { saveBillingPeriod } from "../billingPeriods.sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import { getAccount } from "../../accounts/getAccount.ts";

/**
 * Reads an account's subscription at Stripe, and stores its state and its current billing periods. An account without a
 * subscription is skipped.
 * @throws Error if Stripe is not configured or cannot be reached
 */
export const refreshSubscription = async (
  { db, clock, billing }: BillingContext,
  accountId: string,
  signal: AbortSignal,
): Promise<void> => {
  const { stripeSubscriptionId: subscriptionId } = await getAccount(db, accountId);
  if (subscriptionId === null) {
    return;
  }
  const stripe = billing.findProcessor("stripe", "live");
  if (!stripe) {
    throw new Error("Stripe is not configured.");
  }
  // Read before the call: a change during the call makes the state older than it may be, never newer.
  const readAt = clock.now();
  const state = await stripe.readSubscription(subscriptionId, signal);
  await db.transaction(async (transaction) => {
    await saveSubscriptionState(transaction, { accountId, subscriptionId }, state, readAt);
    for (const kind of KINDS) {
      const period = state.periods[kind];
      if (period !== null) {
        await saveBillingPeriod(transaction, { accountId, subscriptionId, kind }, period, readAt);
      }
    }
  });
};

const PAGE = 100;
const CALL_TIMEOUT_MS = 20_000;

/** Each subscription takes two calls; usage needs the rest of Stripe's rate limit. */
const INTERVAL_MS = 100;

/** An outage: each further call may take as long as its timeout. */
const MAXIMUM_UNAVAILABLE_IN_A_ROW = 3;

export type SubscriptionSweep = {
  readonly read: number;
  /** The accounts whose subscription could not be read. */
  readonly failed: number;
};

/**
 * Reads every organization's subscription at Stripe that has not been read since a time. What has been read is stored, so a
 * repeated call continues.
 * @param onFailure called for each subscription that cannot be read; the others follow
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const sweepSubscriptions = async (
  context: BillingContext,
  readBefore: Date,
  {
    signal,
    onFailure,
    intervalMs = INTERVAL_MS,
  }: {
    readonly signal: AbortSignal;
    readonly onFailure: (accountId: string, error: unknown) => void;
    readonly intervalMs?: number;
  },
): Promise<SubscriptionSweep> => {
  let [read, failed, unavailable] = [0, 0, 0];
  if (context.billing.findProcessor("stripe", "live") === null) {
    return { read, failed };
  }
  let after: string | null = null;
  for (;;) {
    const ids: readonly string[] = await listSubscriptionsToRead(context.db, {
      readBefore,
      now: context.clock.now(),
      after,
      limit: PAGE,
    });
    if (ids.length === 0) {
      return { read, failed };
    }
    for (const id of ids) {
      try {
        await refreshSubscription(
          context,
          id,
          AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]),
        );
        read += 1;
        unavailable = 0;
      } catch (error) {
        signal.throwIfAborted();
        failed += 1;
        onFailure(id, error);
        unavailable = error instanceof ProcessorUnavailableError ? unavailable + 1 : 0;
        if (unavailable === MAXIMUM_UNAVAILABLE_IN_A_ROW) {
          throw error;
        }
      }
      after = id;
      await sleep(intervalMs, undefined, { signal });
    }
  }
};
