import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { getAccount } from "../../accounts/getAccount.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import {
  findMeterEvent,
  letWait,
  lockMeterEvents,
  lockRefundedUsage,
  recordFailure,
  recordFoundDelivery,
  releaseRefunds,
  sendAgain,
} from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import { UsageUnreadableError } from "../processor.ts";
import { listAccountsOfStripe } from "../processorEvents/stripeSubscriptions.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { early, isTooOldToSend, TOO_OLD } from "../sending/decideNextStep.rules.ts";
import type { SendResult } from "../sending/decideNextStep.rules.ts";
import { lockMinutes, lockStreams } from "../streams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { decideMinute, findObstacle, isAskedAbout } from "./minutes.rules.ts";
import type { Answer, CustomerMinute, Obstacle } from "./minutes.rules.ts";
import { listEventsOfSpan, listOtherCustomers } from "./minutes.sql.ts";
import type { CustomerStream } from "./minutes.sql.ts";
import { replaceOpenDifferences } from "./differences.sql.ts";

/** A customer that may have usage of a minute, the accounts whose usage that is, and its events. */
type Place = CustomerStream & {
  readonly accountIds: readonly string[];
  readonly events: readonly StoredMeterEvent[];
};

/** Reads our side of a minute: the customer that is asked first, then others that may have usage of its accounts instead. */
const readPlaces = async (
  db: CommonQueryMethods,
  { kind, customerId, accountId }: CustomerStream,
  minute: Span,
): Promise<readonly [Place, ...Place[]]> => {
  const stream = { kind, customerId, accountId };
  const events = await listEventsOfSpan(db, stream, minute);
  const accountIds = [...new Set(events.filter(isAskedAbout).map((event) => event.accountId))];
  const others: Place[] = [];
  for (const customer of await listOtherCustomers(db, accountIds, customerId)) {
    const other = { ...stream, ...customer };
    others.push({ ...other, events: await listEventsOfSpan(db, other, minute) });
  }
  return [{ ...stream, accountIds, events }, ...others];
};

/** Reads the processor's sum of a minute, or why it does not report it. Without a customer, nothing was ever sent. */
export const readTheirs = async (
  { billing }: BillingContext,
  { kind, customerId }: CustomerStream,
  minute: Span,
  signal: AbortSignal,
): Promise<CustomerMinute["theirs"]> => {
  try {
    return customerId === null
      ? 0
      : await requireStripe(billing).sumUsage(customerId, kind, minute, signal);
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      return { unreadable: error.message };
    }
    throw error;
  }
};

/** Locks what sends usage of the minute, in the order of all transactions: streams, then minutes. */
export const lockMinute = async (
  transaction: DatabaseTransactionConnection,
  places: readonly Omit<Place, "events">[],
  minute: Span,
): Promise<void> => {
  const customerIds = places.flatMap(({ customerId }) => customerId ?? []);
  const holders = await listAccountsOfStripe(transaction, customerIds);
  await lockStreams(
    transaction,
    places.flatMap(({ kind, accountIds }) =>
      [...accountIds, ...holders].map((accountId) => ({ accountId, mode: "live" as const, kind })),
    ),
  );
  await lockMinutes(
    transaction,
    places.map(({ kind, customerId, accountId }) =>
      [kind, customerId ?? accountId, minute.start].join("/"),
    ),
  );
};

/**
 * Decides what happens to an event that the processor does not have, and where it is sent: usage to where the account is billed
 * now, a refund to its usage, for which it may have to wait, and a correction to the customer whose sum differs.
 */
export const decideAbsent = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  now: Date,
) => {
  const { id, accountId, mode, quantity, failure, second } = event;
  const isRefund = quantity < 0 && failure !== "difference";
  const usage = isRefund ? await lockRefundedUsage(transaction, id) : null;
  const { processor, customerId } =
    isRefund || failure === "difference"
      ? (usage ?? event)
      : billing.targetFor(await getAccount(transaction, accountId), mode);
  const waitsFor = usage?.state === "pending" || usage?.state === "failed" ? usage.id : null;
  const absent = isTooOldToSend(second, now) ? "too_old" : "send";
  return { processor, customerId, waitsFor, retry: waitsFor === null ? absent : "wait" } as const;
};

/** Records what was found out about an event. Must run under the locks of its stream and minute. */
export const applyAnswer = async (
  context: BillingContext,
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  answer: Answer,
  now: Date,
): Promise<void> => {
  const { id, accountId, kind, second, quantity } = event;
  switch (answer.kind) {
    case "delivered": {
      const { customerId } = answer;
      await recordFoundDelivery(transaction, id, customerId, now);
      await recordUsageEvent(transaction, event, "delivered", now);
      await releaseRefunds(transaction, [id]);
      const units = answer.units - quantity;
      if (customerId !== null && units !== 0) {
        // Now, because the event may be older than what comparisons read.
        const found = [{ accountId, second, units }];
        const stream = { customerId, kind };
        await replaceOpenDifferences(transaction, stream, minuteOf(second), found, now);
      }
      break;
    }
    case "absent": {
      const { retry, waitsFor, ...target } = await decideAbsent(context, transaction, event, now);
      if (waitsFor !== null) {
        await letWait(transaction, id, waitsFor);
      } else if (retry === "too_old") {
        await recordFailure(transaction, id, { failure: retry, reason: TOO_OLD, now });
      } else {
        await sendAgain(transaction, id, target);
      }
      await recordUsageEvent(transaction, event, retry === "too_old" ? "failed" : "pending", now);
      break;
    }
    case "unclear":
      await recordFailure(transaction, id, { failure: "unclear", reason: answer.reason, now });
      await recordUsageEvent(transaction, event, "failed", now);
      break;
  }
};

/**
 * A failed event is decided only if the sums show some of it: an operator decides when it is sent. A refund that waits for its
 * usage is known not to have been sent then.
 */
const concernsFailed = ({ failure }: StoredMeterEvent, answer: Answer): boolean =>
  failure === null ||
  answer.kind === "delivered" ||
  (failure === "waits_for_usage" && answer.kind === "absent");

/** Returns what a decision about a minute depends on, for comparison. */
const keyOf = (places: readonly Place[]): string =>
  JSON.stringify(
    places.map(({ events }) =>
      events.map(({ id, state, attempts, quantity, generation }) =>
        [id, state, attempts, quantity, generation].map(String),
      ),
    ),
  );

const CHANGED: Obstacle = { reason: "usage of that minute has changed meanwhile", afterMs: 1000 };

/**
 * Asks the processor which events of a customer's minute it has, and records the answers: about all events that it may have,
 * because they depend on each other.
 * @returns why the sums prove nothing yet; null if the answers are recorded
 * @throws ProcessorUnavailableError if Stripe is not configured or does not answer
 */
const askAboutMinute = async (
  context: BillingContext,
  stream: CustomerStream,
  minute: Span,
  signal: AbortSignal,
): Promise<Obstacle | null> => {
  const { db, clock } = context;
  const places = await readPlaces(db, stream, minute);
  const events = places.flatMap((place) => place.events);
  const obstacle = findObstacle(events, await readDatabaseTime(db, clock));
  if (obstacle !== null) {
    return obstacle;
  }
  const [own, ...others] = places;
  const withTheirs = async (place: Place) => ({
    ...place,
    theirs: await readTheirs(context, place, minute, signal),
  });
  const answers = decideMinute(await withTheirs(own), await Promise.all(others.map(withTheirs)));
  return db.transaction(async (transaction) => {
    await lockMinute(transaction, places, minute);
    const now = await readDatabaseTime(transaction, clock);
    const locked = await lockMeterEvents(transaction, [...answers.keys()]);
    // Another process may have answered, or usage of the minute may have been sent or closed.
    if (keyOf(await readPlaces(transaction, stream, minute)) !== keyOf(places)) {
      return CHANGED;
    }
    for (const event of locked.toSorted((a, b) => b.quantity - a.quantity)) {
      const answer = answers.get(event.id);
      if (answer && concernsFailed(event, answer)) {
        await applyAnswer(context, transaction, event, answer, now);
      }
    }
    return null;
  });
};

/** Asks about an event that is pending, together with the others of its minute. Its outcome is recorded then. */
export const askAboutEvent = async (
  context: BillingContext,
  event: StoredMeterEvent,
  signal: AbortSignal,
): Promise<SendResult> => {
  const obstacle = await askAboutMinute(context, event, minuteOf(event.second), signal);
  if (obstacle !== null) {
    return early(obstacle.reason, obstacle.afterMs);
  }
  const current = await findMeterEvent(context.db, event.id);
  return current?.state === "delivered" || current?.state === "failed"
    ? { kind: "settled", state: current.state, failure: current.failure, reason: current.lastError }
    : early("the processor does not have it; it is sent again", 0);
};
