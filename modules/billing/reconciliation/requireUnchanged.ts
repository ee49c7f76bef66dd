import type { DatabaseTransactionConnection, CommonQueryMethods } from "slonik";
import { lockStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import { lockMeterEventRow } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { customerOf } from "./acknowledgedDrift.sql.ts";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import type { CustomerStream } from "./reportedStreams.sql.ts";
import { lockMinutes, lockStreams } from "../streams.sql.ts";
import { namedEvents } from "../meterEvents.rules.ts";
import type { Span } from "../usage.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { listEventsInDoubt } from "./eventsInDoubt.sql.ts";
import { mayBeAt } from "./usageInDoubt.rules.ts";

/** A minute whose sum has decided, as our side of it was read before. */
export type ComparedMinute = {
  readonly stream: CustomerStream;
  readonly minute: Span;
  /** The events that were left out. */
  readonly without: readonly bigint[];
  readonly version: string;
};

/** Events, and what a decision about them depends on, as they were when it was made. */
export type Decided = {
  /** Of one mode and kind. */
  readonly events: readonly StoredMeterEvent[];
  readonly minutes: readonly ComparedMinute[];
  /** The Stripe customers of accounts, if it depends on them: another one may have the usage. */
  readonly customers: ReadonlyMap<string, string | null>;
};

/** Locks minutes of sums until the transaction ends; see `lockMinutes`. */
export const lockComparedMinutes = (
  transaction: DatabaseTransactionConnection,
  minutes: readonly Pick<ComparedMinute, "stream" | "minute">[],
): Promise<void> =>
  lockMinutes(
    transaction,
    minutes.map(({ stream, minute }) =>
      [stream.processor, stream.mode, stream.kind, customerOf(stream), minute.start].join("/"),
    ),
  );

const isEventUnchanged = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
): Promise<boolean> => {
  // The row, because a comparison puts events in doubt without the locks of their streams.
  const current = await lockMeterEventRow(transaction, event.id);
  return (
    current?.state === event.state &&
    current.attempts === event.attempts &&
    current.outcomeUnknown === event.outcomeUnknown &&
    // A retry of usage may have released some of its refunds.
    current.quantity === event.quantity &&
    // A report of the processor may have made it a failed event again.
    current.settledAt?.getTime() === event.settledAt?.getTime() &&
    current.settlementReference === event.settlementReference
  );
};

/**
 * Locks what a decision depends on, in the order of all transactions: the streams of its events, the minutes of sums, the
 * accounts and the events. Returns whether all of it is as it was.
 */
const isUnchanged = async (
  transaction: DatabaseTransactionConnection,
  { events, minutes, customers }: Decided,
): Promise<boolean> => {
  const [first] = events;
  if (first) {
    // A customer may have belonged to several accounts.
    await lockStreams(transaction, first, new Set(events.map(({ accountId }) => accountId)));
  }
  await lockComparedMinutes(transaction, minutes);
  const current = await lockStripeCustomerIds(transaction, [...customers.keys()]);
  const unchanged = [...customers].map(([id, customerId]) => current.get(id) === customerId);
  for (const event of events.toSorted((a, b) => Number(a.id - b.id))) {
    unchanged.push(await isEventUnchanged(transaction, event));
  }
  for (const { stream, minute, without, version } of minutes) {
    const usage = await readMinuteUsage(transaction, stream, minute, without);
    unchanged.push(usage.version === version);
  }
  return unchanged.every(Boolean);
};

/**
 * Locks what a decision about events depends on until the transaction ends, and checks that it is as it was.
 * @throws DomainError request_invalid if something has changed
 */
export const requireUnchanged = async (
  transaction: DatabaseTransactionConnection,
  decided: Decided,
): Promise<void> => {
  if (!(await isUnchanged(transaction, decided))) {
    const ids = decided.events.map(({ id }) => String(id));
    throw invalidRequest(
      `${namedEvents(ids)}: usage of the minute or the organization's customer changed in the meantime; try again`,
    );
  }
};

/**
 * Returns the usage that must be decided before a difference is corrected or acknowledged: it may be the difference, and a
 * later retry could send it.
 */
export const findOpenUsage = async (
  db: CommonQueryMethods,
  stream: CustomerStream,
  minute: Span,
): Promise<readonly StoredMeterEvent[]> => {
  const events = await listEventsInDoubt(db, stream, minute);
  return events.filter((event) => mayBeAt(stream.customerId, event, event.currentCustomerId));
};
