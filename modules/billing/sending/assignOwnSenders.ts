import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { SHARD_NUMBERS, shardOf } from "../../../db/shards.rules.ts";
import { listAccountsWithOwnSenders } from "./waitingStreams.sql.ts";
import { OWN_SENDERS_PER_SHARD } from "./decideNextStep.rules.ts";

/** An event whose attempt ended in a delay, as it was before, and whether that puts its stream in trouble. */
export type DelayedEvent = {
  readonly event: StoredMeterEvent;
  readonly isInTrouble: boolean;
};

/**
 * Decides which of the streams in trouble have a sender of their own: those that have one keep it, and others get one while
 * their shard has fewer than it may have. If several workers decide at the same time, it can get some more.
 * @returns the ids of the streams' events
 */
export const assignOwnSenders = async (
  db: CommonQueryMethods,
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
