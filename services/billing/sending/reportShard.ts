import { recordShardPass } from "../../../db/billing/sending/usageShards.ts";
import { secondOf, SHARDS } from "../../../domain/billing/usage.ts";
import { createShardSender } from "./createShardSender.ts";
import type { ScanStreams } from "./createStreamScans.ts";
import type { ShardObservers } from "./createShardSender.ts";
import type { SendingDependencies } from "./sendMeterEvent.ts";

/** Long enough to cost nothing, and short enough that the shards of a worker that stopped are soon shared again. */
const RUN_MS = 60_000;

const SECOND_MS = 1000;

/**
 * How long after the beginning of a second a shard scans. At the same time, the shards would compete for the calls to Stripe
 * of the near future, and those that get none would have to begin their attempts later, each with another change of its row.
 */
const scanOffsetMs = (shard: number): number => (shard * SECOND_MS) / SHARDS;

/**
 * Reports the usage of a shard's streams for a minute. It scans for usage every second, because the facts of another second
 * may be sealed.
 * @param stop no more usage is sealed once it is aborted; calls in flight are finished
 * @param signal aborts calls in flight
 */
export const reportShard = async (
  deps: SendingDependencies,
  shard: number,
  {
    stop,
    signal,
    ...options
  }: ShardObservers & {
    readonly stop: AbortSignal;
    readonly signal: AbortSignal;
    readonly scanStreams: ScanStreams;
  },
): Promise<void> => {
  const { db, clock } = deps;
  const sender = createShardSender(deps, shard, { ...options, signal });
  const startedAtMs = performance.now();
  const offsetMs = scanOffsetMs(shard);
  let scannedSecond: number | null = null;
  try {
    while (!stop.aborted && !signal.aborted && performance.now() - startedAtMs < RUN_MS) {
      const second = secondOf(new Date(clock.now().getTime() - offsetMs));
      const isNewSecond = second !== scannedSecond;
      if (isNewSecond) {
        scannedSecond = second;
        sender.startScan();
      }
      await sender.step();
      if (isNewSecond) {
        await recordShardPass(db, shard);
      }
      await sender.waitForWork(SECOND_MS - ((clock.now().getTime() - offsetMs) % SECOND_MS));
    }
  } finally {
    await sender.settled();
  }
};
