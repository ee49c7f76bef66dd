import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { listStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { doubtUnsentEvents } from "./eventsInDoubt.sql.ts";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import { streamOfEvent } from "./reportedStreams.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { compareEvents } from "../sending/compareUsage.rules.ts";
import type { ComparedOutcome } from "../sending/compareUsage.rules.ts";
import {
  CUSTOMER_UNKNOWN,
  customersInDoubt,
  isCustomerUnknown,
  groupByMinute,
} from "./usageInDoubt.rules.ts";
import type { MinuteInDoubt } from "./usageInDoubt.rules.ts";
import { decideRetryAfterCheck } from "./decideRetry.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { UsageUnreadableError } from "../processor.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { runConcurrently } from "../../../runtime/runConcurrently.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { getProcessor } from "../createBilling.ts";
import { endHold } from "../holdUsage.ts";
import { applyOutcome } from "./applyOutcome.ts";
import { requireUnchanged } from "./requireUnchanged.ts";
import type { Decided } from "./requireUnchanged.ts";
import type { BillingContext } from "../context.ts";
import { blockUsageInDoubt } from "./blockUsageInDoubt.ts";
import { CONCURRENT_READS } from "./reconcileUsage.ts";
import { requireHold, requireRest } from "./requireRest.ts";

/** A meter event whose delivery was unknown, and what the processor's sums show of it. */
export type SettledDoubt = {
  readonly event: StoredMeterEvent;
  readonly outcome: ComparedOutcome | { readonly kind: "unclear"; readonly reason: string };
};

/** Returns how many of an event's units the processor has; null if that is unclear. */
export const processorQuantityOf = ({ event, outcome }: SettledDoubt): number | null => {
  switch (outcome.kind) {
    case "delivered":
      return event.quantity;
    case "partial":
      return outcome.acceptedQuantity;
    case "absent":
      return 0;
    case "unclear":
      return null;
  }
};

export type AfterRestoreOptions = {
  readonly operator: string;
  /** Usage of earlier seconds is compared only if it was blocked since the hold began. Null: all usage that is not delivered. */
  readonly since: Date | null;
  readonly isDryRun: boolean;
};

const ELSEWHERE = "the organization's present customer may have the usage; retry";

/** An event in doubt, and the customers that may have it. It is compared at the first of them. */
type LocatedEvent = StoredMeterEvent & {
  readonly customers: readonly (string | null)[];
  /** The organization's present one, on which they depend. */
  readonly currentCustomerId: string | null;
  /** Why it stays unclear whether the event was sent if that customer does not have all of it; null: it was not. */
  readonly doubt: string | null;
};

const locate = async (
  db: DatabasePool,
  events: readonly StoredMeterEvent[],
): Promise<readonly LocatedEvent[]> => {
  const current = await listStripeCustomerIds(
    db,
    events.map(({ accountId }) => accountId),
  );
  return events.map((event) => {
    const currentCustomerId = current.get(event.accountId) ?? null;
    const customers = customersInDoubt(event, currentCustomerId);
    const elsewhere = customers.length > 1 ? ELSEWHERE : null;
    const doubt = isCustomerUnknown(event, currentCustomerId) ? CUSTOMER_UNKNOWN : elsewhere;
    const customerId = customers[0] ?? null;
    return { ...event, customers, currentCustomerId, customerId, doubt };
  });
};

const record = (
  transaction: DatabaseTransactionConnection,
  { clock }: BillingContext & OperatorContext,
  doubt: SettledDoubt,
  heldAt: Date,
): Promise<void> => {
  const { event, outcome } = doubt;
  const { customerId } = event;
  return applyOutcome(
    transaction,
    event,
    { ...decideRetryAfterCheck(event, outcome, null), customerId },
    {
      note: `the processor has ${counted(processorQuantityOf(doubt) ?? 0, "unit")} of it`,
      // Not now: nothing was sent after the hold, so the sums lag behind nothing.
      settledAt: heldAt,
      deliveredBy: heldAt,
      // Refunds may have been held while the event was blocked, and a retry cannot release them: it is no longer failed.
      heldRefunds: "none",
      now: clock.now(),
    },
  );
};

/** What the processor's sum shows of a minute, and what this depends on. */
type SettledMinute = Decided & { readonly doubts: readonly SettledDoubt[] };

/** Reads the processor's sum of a minute once, and allots it to the minute's events. */
const compareMinute = async (
  { db, billing }: BillingContext & OperatorContext,
  events: MinuteInDoubt<LocatedEvent>,
  signal: AbortSignal,
): Promise<SettledMinute> => {
  const [first] = events;
  const { accountId, customerId, kind } = first;
  const processor = getProcessor(billing, first.processor, first.mode);
  const minute = minuteOf(first.second);
  const stream = streamOfEvent(first);
  const without = events.map(({ id }) => id);
  const { explained, version } = await readMinuteUsage(db, stream, minute, without);
  const decided: Decided = {
    events,
    minutes: [{ stream, minute, without, version }],
    customers: new Map(events.map((event) => [event.accountId, event.currentCustomerId])),
  };
  const allUnclear = (reason: string): SettledMinute => ({
    doubts: events.map((event) => ({ event, outcome: { kind: "unclear", reason } })),
    ...decided,
  });
  if (first.customers.length === 0) {
    return allUnclear(CUSTOMER_UNKNOWN);
  }
  try {
    const customer = { accountId, customerId };
    const theirs = await processor.sumUsage(customer, kind, minute, signal);
    const quantities = events.map(({ quantity }) => quantity);
    const outcomes = compareEvents(quantities, theirs - explained);
    const doubts = events.map((event, index): SettledDoubt => {
      const outcome = outcomes[index] ?? { kind: "absent" };
      return outcome.kind !== "delivered" && event.doubt !== null
        ? { event, outcome: { kind: "unclear", reason: event.doubt } }
        : { event, outcome };
    });
    return { doubts, ...decided };
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      return allUnclear(error.message);
    }
    throw error;
  }
};

/**
 * Compares the events of a minute, and records the result if they have not changed meanwhile: an operator may retry or close
 * one of them, or another comparison may settle them. Their shares of the sum depend on each other, so it is one transaction.
 */
const settleMinute = async (
  context: BillingContext & OperatorContext,
  events: MinuteInDoubt<LocatedEvent>,
  heldAt: Date,
  { isDryRun, signal }: { readonly isDryRun: boolean; readonly signal: AbortSignal },
): Promise<readonly SettledDoubt[]> => {
  const { doubts, ...decided } = await compareMinute(context, events, signal);
  if (!isDryRun && doubts.every(({ outcome }) => outcome.kind !== "unclear")) {
    await context.db.transaction(async (transaction) => {
      await requireUnchanged(transaction, decided);
      await requireHold(transaction, heldAt);
      for (const doubt of doubts) {
        await record(transaction, context, doubt, heldAt);
      }
    });
  }
  return doubts;
};

/**
 * Settles the usage that a restore has put in doubt, and ends the hold. All live usage from before the hold that is not
 * delivered may have been sent in the history that was lost. The processor's sum of its minute decides: what it has counts
 * as delivered, and only the rest is sent. Usage that the sums leave unclear stays blocked. A repeated call continues an
 * interrupted one.
 * @throws DomainError request_invalid if usage is not held, it is too early to compare, or an event in doubt was changed
 * concurrently
 */
export const settleAfterRestore = async (
  context: BillingContext & OperatorContext,
  options: AfterRestoreOptions,
  signal: AbortSignal,
): Promise<readonly SettledDoubt[]> => {
  const { db, clock, actor } = context;
  const heldAt = await requireRest(context);
  if (!options.isDryRun) {
    // A retry in the lost history may have been accepted. First, so that what a retry releases unchecked is compared.
    await doubtUnsentEvents(db);
  }
  const events = await blockUsageInDoubt(context, heldAt, options);
  const settled = await runConcurrently(
    groupByMinute(await locate(db, events)),
    (minute) => settleMinute(context, minute, heldAt, { isDryRun: options.isDryRun, signal }),
    { concurrency: CONCURRENT_READS, signal },
  );
  if (!options.isDryRun) {
    await db.transaction(async (transaction) => {
      // No other hold may begin before this one ends.
      await lockDeployment(transaction);
      await requireHold(transaction, heldAt);
      await recordAction(transaction, actor, clock.now(), {
        action: "usage.compare_and_release",
        details: { heldAt, since: options.since, events: events.length },
      });
      await endHold(transaction, context, options.operator);
    });
  }
  return settled.flat();
};
