import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { findAccount } from "../../accounts/accounts.sql.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import type { BillingContext } from "../context.ts";
import { currentTarget, requireStripe } from "../createBilling.ts";
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
import type { BillingTarget, Span } from "../usage.rules.ts";
import { decideMinute, findObstacle, isAskedAbout } from "./minutes.rules.ts";
import type { Answer, CustomerMinute, Obstacle } from "./minutes.rules.ts";
import { listEventsOfSpan, listOtherCustomers } from "./minutes.sql.ts";
import type { CustomerStream } from "./minutes.sql.ts";
import { sendDifference } from "./differences.sql.ts";

/** A customer that may have usage of a minute, and the accounts whose usage that is. */
type Place = CustomerStream & { readonly accountIds: readonly string[] };

type PlaceInMinute = Place & { readonly events: readonly StoredMeterEvent[] };

/** Reads our side of a minute: the customer that is asked first, then others that may have usage of its accounts instead. */
const readPlaces = async (
  db: CommonQueryMethods,
  { kind, customerId, accountId }: CustomerStream,
  minute: Span,
): Promise<readonly [PlaceInMinute, ...PlaceInMinute[]]> => {
  const stream = { kind, customerId, accountId };
  const events = await listEventsOfSpan(db, stream, minute);
  const accountIds = [...new Set(events.filter(isAskedAbout).map((event) => event.accountId))];
  const others: PlaceInMinute[] = [];
  for (const customer of await listOtherCustomers(db, accountIds, customerId)) {
    const other = { ...stream, ...customer };
    others.push({ ...other, events: await listEventsOfSpan(db, other, minute) });
  }
  return [{ ...stream, accountIds, events }, ...others];
};

/** Adds the processor's sum of the minute. Without a customer, nothing was ever sent. */
const withTheirs = async (
  { billing }: BillingContext,
  place: PlaceInMinute,
  minute: Span,
  signal: AbortSignal,
): Promise<PlaceInMinute & CustomerMinute> => {
  const { kind, customerId } = place;
  if (customerId === null) {
    return { ...place, theirs: 0 };
  }
  const theirs = await requireStripe(billing)
    .sumUsage(customerId, kind, minute, signal)
    .catch((error: unknown) => {
      if (error instanceof UsageUnreadableError) {
        return { unreadable: error.message };
      }
      throw error;
    });
  return { ...place, theirs };
};

/** Locks what sends usage of the minute, in the order of all transactions: streams, then minutes. */
export const lockMinute = async (
  transaction: DatabaseTransactionConnection,
  places: readonly Place[],
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

/** Where an event that the processor does not have is sent, and the usage that a refund has to wait for before. */
type Target = BillingTarget & { readonly waitsFor: bigint | null };

/**
 * Returns where usage that the processor does not have is sent: usage to where the account is billed now, a refund to its usage,
 * and a correction to the customer whose sum differs.
 */
export const findTarget = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  { id, accountId, mode, quantity, failure, processor, customerId }: StoredMeterEvent,
): Promise<Target> => {
  if (failure !== "difference" && quantity > 0) {
    const account = await findAccount(transaction, accountId);
    return {
      ...currentTarget(billing, account?.stripeCustomerId ?? null, mode),
      waitsFor: null,
    };
  }
  const usage = failure === "difference" ? null : await lockRefundedUsage(transaction, id);
  const isUndelivered = usage?.state === "pending" || usage?.state === "failed";
  return {
    ...(usage ?? { processor, customerId }),
    waitsFor: isUndelivered ? usage.id : null,
  };
};

/** Decides what happens to an event that the processor does not have. */
export const decideAbsent = (
  { second }: StoredMeterEvent,
  { waitsFor }: Target,
  now: Date,
): "send" | "wait" | "too_old" =>
  waitsFor === null ? (isTooOldToSend(second, now) ? "too_old" : "send") : "wait";

/** Records what was found out about an event. Must run under the locks of its stream and minute. */
export const applyAnswer = async (
  context: BillingContext,
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  answer: Answer,
  now: Date,
): Promise<void> => {
  const { id } = event;
  switch (answer.kind) {
    case "delivered":
    case "partial": {
      const note = "the processor's sums show it";
      await recordFoundDelivery(transaction, id, {
        customerId: answer.customerId,
        note: answer.kind === "delivered" ? note : `${note} with ${counted(answer.units, "unit")}`,
        now,
      });
      await recordUsageEvent(transaction, event, "delivered", now);
      await releaseRefunds(transaction, [id]);
      if (answer.kind === "partial") {
        const units = answer.units - event.quantity;
        await sendDifference(transaction, { ...event, ...answer, kind: event.kind, units }, now);
      }
      break;
    }
    case "absent": {
      const target = await findTarget(context, transaction, event);
      const isTooOld = decideAbsent(event, target, now) === "too_old";
      if (target.waitsFor !== null) {
        await letWait(transaction, id, target.waitsFor);
      } else if (isTooOld) {
        await recordFailure(transaction, id, { failure: "too_old", reason: TOO_OLD, now });
      } else {
        await sendAgain(transaction, id, target);
      }
      await recordUsageEvent(transaction, event, isTooOld ? "failed" : "pending", now);
      break;
    }
    case "unclear":
      await recordFailure(transaction, id, { failure: "unclear", reason: answer.reason, now });
      await recordUsageEvent(transaction, event, "failed", now);
      break;
  }
};

/**
 * A failed event is decided only if the sums show all of it: an operator decides when the rest is sent. A refund that waits for
 * its usage is known not to have been sent then.
 */
const concernsFailed = ({ failure }: StoredMeterEvent, answer: Answer): boolean =>
  failure === null ||
  answer.kind === "delivered" ||
  (failure === "waits_for_usage" && answer.kind === "absent");

/** Returns what a decision about a minute depends on, for comparison. */
const keyOf = (places: readonly PlaceInMinute[]): string =>
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
  const answers = decideMinute(
    await withTheirs(context, own, minute, signal),
    await Promise.all(others.map((other) => withTheirs(context, other, minute, signal))),
  );
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
    ? {
        kind: "settled",
        state: current.state,
        failure: current.failure,
        reason: current.lastError,
      }
    : early("the processor does not have it; it is sent again", 0);
};
