import type { DatabasePool } from "slonik";
import { recordShardPass } from "../db/shards.ts";
import type { Clock } from "../domain/clock.ts";
import { SHARDS } from "../domain/shards.ts";
import type { ShardKind } from "../domain/shards.ts";

/** Long enough to cost nothing, and short enough that the shards of a worker that stopped are soon shared again. */
const RUN_MS = 60_000;

const SECOND_MS = 1000;

/** What does the work of a shard. */
export type ShardSender = {
  /** Makes the sender look for all work of its shard, unless it is looking. */
  readonly startScan: () => void;
  /** Begins what is ready, as far as there is room. Does not wait for it to end. */
  readonly step: () => Promise<void>;
  /** Waits until another step has something to do, but no longer than this. */
  readonly waitForWork: (atMostMs: number) => Promise<void>;
  /** Resolves when all that has begun has ended and is recorded. */
  readonly settled: () => Promise<void>;
};

/** When a run of a shard ends before its minute. */
export type ShardSignals = {
  /** No more work begins once it is aborted; calls in flight are finished. */
  readonly stop: AbortSignal;
  /** Aborts calls in flight. */
  readonly signal: AbortSignal;
};

/**
 * Returns how long after the beginning of a second a shard looks for work, so that each of the shards does at another time.
 */
export const spreadOverSecond = (shard: number): number => (shard * SECOND_MS) / SHARDS;

/**
 * Does the work of a shard for a minute. It looks for work every second. At the end, work that has begun may be in progress.
 * @param offsetMs how long after the beginning of a second it looks for work
 * @param runMs how long it does this instead of a minute
 */
export const runShard = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  {
    kind,
    shard,
    offsetMs,
    runMs = RUN_MS,
  }: {
    readonly kind: ShardKind;
    readonly shard: number;
    readonly offsetMs: number;
    readonly runMs?: number | undefined;
  },
  sender: ShardSender,
  { stop, signal }: ShardSignals,
): Promise<void> => {
  const startedAtMs = performance.now();
  const nowMs = (): number => clock.now().getTime() - offsetMs;
  let scannedSecond: number | null = null;
  while (!stop.aborted && !signal.aborted && performance.now() - startedAtMs < runMs) {
    const second = Math.floor(nowMs() / SECOND_MS);
    const isNewSecond = second !== scannedSecond;
    if (isNewSecond) {
      scannedSecond = second;
      sender.startScan();
    }
    await sender.step();
    if (isNewSecond) {
      await recordShardPass(db, kind, shard);
    }
    await sender.waitForWork(SECOND_MS - (nowMs() % SECOND_MS));
  }
};
