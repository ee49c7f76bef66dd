import type { DatabasePool } from "slonik";
import { listMeterEventIdsOfEndedPeriods } from "../meterEventReports.sql.ts";
import { recordDelays, settleAttempts } from "./attempts.sql.ts";
import type { AttemptDelay, AttemptSettlement } from "./attempts.sql.ts";
import { joinCalls } from "../../../db/joinCalls.ts";
import { DEFAULT_GRACE_MS } from "../meterEvents.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { listAccountsWithOwnSenders } from "./waitingStreams.sql.ts";
import { OWN_SENDERS_PER_SHARD } from "./decideNextStep.rules.ts";
import { SHARD_NUMBERS, shardOf } from "../../../db/shards.rules.ts";

/** An event whose attempt ended in a delay, as it was before, and whether that puts its stream in trouble. */
type DelayedEvent = {
  readonly event: StoredMeterEvent;
  readonly isInTrouble: boolean;
};

/**
 * Decides which of the streams in trouble have a sender of their own: those that have one keep it, and others get one while
 * their shard has fewer than it may have. If several workers decide at the same time, it can get some more.
 * @returns the ids of the streams' events
 */
const assignOwnSenders = async (
  db: DatabasePool,
  delays: readonly DelayedEvent[],
): Promise<ReadonlySet<bigint>> => {
  const events = delays.flatMap(({ event, isInTrouble }) => (isInTrouble ? [event] : []));
  const others = events.filter(({ hasOwnSender }) => !hasOwnSender);
  const kept = events.filter(({ hasOwnSender }) => hasOwnSender);
  const taken = others.length === 0 ? [] : await listAccountsWithOwnSenders(db);
  const assigned = SHARD_NUMBERS.flatMap((shard) => {
    const free = OWN_SENDERS_PER_SHARD - taken.filter((id) => shardOf(id) === shard).length;
    return others
      .filter(({ accountId }) => shardOf(accountId) === shard)
      .slice(0, Math.max(0, free));
  });
  return new Set([...kept, ...assigned].map(({ id }) => id));
};

type RecordedDelay = DelayedEvent & Omit<AttemptDelay, "id" | "attempts" | "hasOwnSender">;

/** How the outcomes of attempts are recorded: those of the same time in one statement. */
export type AttemptRecords = {
  /** Returns whether the billing period of a delivered event had ended. */
  readonly isLate: (delivered: { readonly id: bigint; readonly now: Date }) => Promise<boolean>;
  /** Returns false if another attempt has begun. */
  readonly settle: (settlement: AttemptSettlement) => Promise<boolean>;
  /** Returns whether the stream has a sender of its own, which makes the next attempt. */
  readonly delay: (delay: RecordedDelay) => Promise<boolean>;
};

export const createAttemptRecords = (db: DatabasePool, collectMs = 0): AttemptRecords => ({
  isLate: joinCalls(async (delivered) => {
    const now = new Date(Math.max(...delivered.map((each) => each.now.getTime())));
    const late = await listMeterEventIdsOfEndedPeriods(
      db,
      delivered.map(({ id }) => id),
      { now, graceMs: DEFAULT_GRACE_MS },
    );
    return delivered.map(({ id }) => late.includes(id));
  }),
  settle: joinCalls(async (settlements) => {
    const settled = await settleAttempts(db, settlements);
    return settlements.map(({ id }) => settled.has(id));
  }, collectMs),
  delay: joinCalls(async (delays: readonly RecordedDelay[]) => {
    const assigned = await assignOwnSenders(db, delays);
    const recorded = delays.map(({ event: { id, attempts }, ...delay }) => {
      return { ...delay, id, attempts, hasOwnSender: assigned.has(id) };
    });
    await recordDelays(db, recorded);
    return recorded.map(({ hasOwnSender }) => hasOwnSender);
  }, collectMs),
});
