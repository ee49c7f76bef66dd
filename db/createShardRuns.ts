import { joinCalls } from "./batching/joinCalls.ts";
import { recordShardPasses } from "./shards.sql.ts";
import { SHARDS } from "./shards.rules.ts";
import type { ShardKind } from "./shards.rules.ts";
import type { Context } from "../runtime/context.ts";

/** Long enough to cost nothing, and short enough that the shards of a worker that stopped are soon shared again. */
const RUN_MS = 60_000;

const SECOND_MS = 1000;

/** The passes of a worker's shards are recorded together, because each commit waits for the disk. */
const COLLECT_PASSES_MS = 900;

/** What does the work of a shard. */
export type ShardSender = {
  /** Forgets attempts that another worker may have made since the last run. The next scans find what remains. */
  readonly startRun?: () => void;
  /** Looks for all work of its shard that is ready. Steps go on meanwhile. */
  readonly scan: () => Promise<void>;
  /** Begins what is ready, as far as there is room. Does not wait for it to end. */
  readonly step: () => Promise<void>;
  /** Waits until another step has something to do, but no longer than this. */
  readonly waitForWork: (atMostMs: number) => Promise<void>;
  /** Resolves when all that has begun has ended and is recorded. */
  readonly settled: () => Promise<void>;
};

/** When a run of a shard ends before its minute. */
type RunSignals = {
  /** No more work begins once it is aborted; calls in flight are finished. */
  readonly stop: AbortSignal;
  /** Aborts calls in flight. */
  readonly signal: AbortSignal;
};

export type ShardRuns = {
  /** Does the work of a shard for a minute. It looks for work every second, unless that takes longer. */
  readonly run: (shard: number, signals: RunSignals) => Promise<void>;
  /** Aborts the calls in flight that no run has continued, and waits until that is recorded. */
  readonly end: () => Promise<void>;
};

/** Returns how long after the beginning of a second a shard looks for work, so that each does at another time. */
export const spreadOverSecond = (shard: number): number => (shard * SECOND_MS) / SHARDS;

export type ShardOptions = {
  readonly kind: ShardKind;
  /** Returns how long after the beginning of a second a shard looks for work. */
  readonly offsetMsOf?: (shard: number) => number;
  /** @param signal aborts the sender's calls, for good */
  readonly createSender: (shard: number, signal: AbortSignal) => ShardSender;
  /** How long a run lasts instead of a minute. */
  readonly runMs?: number | undefined;
};

type ActiveSender = {
  readonly sender: ShardSender;
  readonly calls: AbortController;
  isScanning: boolean;
  /** Whether a scan has ended since the last pass was recorded. */
  hasScanned: boolean;
  /** The error of a scan, or of a pass that could not be recorded. */
  failure: { readonly error: unknown } | null;
};

/** Scans, unless a scan is in progress. An error ends the run before its next step. */
const scan = async (active: ActiveSender): Promise<void> => {
  if (active.isScanning) {
    return;
  }
  active.isScanning = true;
  try {
    await active.sender.scan();
    active.hasScanned = true;
  } catch (error) {
    active.failure = { error };
  }
  active.isScanning = false;
};

type Run = {
  readonly hasEnded: () => boolean;
  /** The clock's time, less the shard's offset. */
  readonly nowMs: () => number;
  readonly recordPass: () => Promise<unknown>;
};

/** Scans once a second, and makes steps until the run has ended. */
const work = async (active: ActiveSender, { hasEnded, nowMs, recordPass }: Run): Promise<void> => {
  const { sender } = active;
  sender.startRun?.();
  let scannedSecond: number | null = null;
  while (!hasEnded()) {
    if (active.failure !== null) {
      throw active.failure.error;
    }
    const second = Math.floor(nowMs() / SECOND_MS);
    if (second !== scannedSecond) {
      scannedSecond = second;
      void scan(active);
    }
    // The step has begun what the scan found.
    const isPass = active.hasScanned;
    await sender.step();
    if (isPass) {
      active.hasScanned = false;
      recordPass().catch((error: unknown) => {
        active.failure = { error };
      });
    }
    await sender.waitForWork(SECOND_MS - (nowMs() % SECOND_MS));
  }
};

/**
 * Creates the runs of a worker's shards. A shard's sender outlasts a run: the next one continues with its calls in flight, so a
 * slow call holds up nothing at the end of a minute. After an error the next run has a new sender.
 */
export const createShardRuns = (
  { db, clock }: Context,
  { kind, offsetMsOf = () => 0, createSender, runMs = RUN_MS }: ShardOptions,
): ShardRuns => {
  const recordPass = joinCalls(
    async (shards: readonly number[]) => {
      await recordShardPasses(db, kind, shards);
      return shards;
    },
    { collectMs: COLLECT_PASSES_MS },
  );
  const activeByShard = new Map<number, ActiveSender>();
  /** Those that are no longer active and have calls in flight. */
  const ending = new Set<ActiveSender>();

  const activate = (shard: number): ActiveSender => {
    const existing = activeByShard.get(shard);
    if (existing) {
      return existing;
    }
    const calls = new AbortController();
    const created: ActiveSender = {
      sender: createSender(shard, calls.signal),
      calls,
      isScanning: false,
      hasScanned: false,
      failure: null,
    };
    activeByShard.set(shard, created);
    return created;
  };

  const deactivate = async (shard: number, active: ActiveSender): Promise<void> => {
    if (activeByShard.get(shard) === active) {
      activeByShard.delete(shard);
    }
    ending.add(active);
    await active.sender.settled();
    ending.delete(active);
  };

  return {
    run: async (shard, { stop, signal }) => {
      const active = activate(shard);
      const abort = (): void => active.calls.abort();
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) {
        abort();
      }
      const isStopped = (): boolean => stop.aborted || active.calls.signal.aborted;
      const endsAtMs = performance.now() + runMs;
      const offsetMs = offsetMsOf(shard);
      try {
        await work(active, {
          hasEnded: () => isStopped() || performance.now() >= endsAtMs,
          nowMs: () => clock.now().getTime() - offsetMs,
          recordPass: () => recordPass(shard),
        });
        if (isStopped()) {
          await deactivate(shard, active);
        } else if (activeByShard.get(shard) !== active) {
          // Another run with this sender has failed meanwhile.
          void deactivate(shard, active);
        }
      } catch (error) {
        void deactivate(shard, active);
        throw error;
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },
    end: async () => {
      const left = [...activeByShard.values(), ...ending];
      activeByShard.clear();
      await Promise.all(
        left.map(async ({ sender, calls }) => {
          calls.abort();
          await sender.settled();
        }),
      );
    },
  };
};
