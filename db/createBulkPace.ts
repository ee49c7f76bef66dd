import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { isRecent, MAXIMUM_STEP_MS, observe, turnMs } from "./bulkWork.rules.ts";
import type { LatestRecords, Observation } from "./bulkWork.rules.ts";
import { runForAll } from "../runtime/client.ts";
import { readLatestRecords, reserveBulkTurn } from "./bulkTurns.ts";
import { wrapPool } from "./pools/wrapPool.ts";

/** Makes bulk work yield to what clients record, in this process and in others. */
export type BulkPace = {
  /**
   * Runs a step: a statement, or a transaction, so that nothing pauses with locks. While clients record, steps run one
   * after another, in turns with those of other processes, and each turn includes a pause. A step that takes longer than
   * `MAXIMUM_STEP_MS` does not delay the next one any longer. A step within a step does not wait.
   */
  readonly run: <Result>(step: () => Promise<Result>) => Promise<Result>;
  /** Yields the items. Reading each of them is a step, except the first: most lists have one page. */
  readonly runEach: <Item>(items: AsyncIterable<Item>) => AsyncIterable<Item>;
  /** Whether clients recorded when it was last known. Then steps should be small. */
  readonly isYielding: () => boolean;
  /** How long the last step took, without its pause. */
  readonly lastStepMs: () => number;
  /** How long steps have waited for their turns. */
  readonly pausedMs: () => number;
};

/** How soon bulk work notices that clients record. The query takes a fifth of a millisecond. */
const LOOK_INTERVAL_MS = 250;

/** Expected of the first step. */
const FIRST_STEP_MS = 5;

/** For work that does not yield. */
export const unhurriedPace: BulkPace = {
  run: (step) => step(),
  runEach: (items) => items,
  isYielding: () => false,
  lastStepMs: () => 0,
  pausedMs: () => 0,
};

async function* runEach<Item>(
  items: AsyncIterable<Item>,
  run: BulkPace["run"],
): AsyncGenerator<Item, void, void> {
  const iterator = items[Symbol.asyncIterator]();
  try {
    let item = await iterator.next();
    while (item.done !== true) {
      yield item.value;
      item = await run(() => iterator.next());
    }
  } finally {
    await iterator.return?.();
  }
}

/** Notices whether clients record. */
const observeClients = (readLatest: () => Promise<LatestRecords>, nowMs: () => number) => {
  let seen: Observation | null = null;
  let lookedAtMs = -Infinity;
  let looking: Promise<void> | null = null;

  const note = (latest: LatestRecords): void => {
    lookedAtMs = nowMs();
    seen = observe(latest, seen, lookedAtMs);
  };
  const look = async (): Promise<void> => {
    try {
      note(await readLatest());
    } finally {
      looking = null;
    }
  };
  const isYielding = (): boolean => seen !== null && isRecent(seen, nowMs());
  const lookIfDue = async (): Promise<void> => {
    if (nowMs() - lookedAtMs >= LOOK_INTERVAL_MS) {
      await (looking ??= look());
    }
  };
  return { note, isYielding, lookIfDue, recordsPerSecond: () => seen?.recordsPerSecond ?? 0 };
};

export const createBulkPace = ({
  readLatest,
  reserveTurn,
  nowMs = () => performance.now(),
  pause = delay,
  limitStep = (durationMs) => delay(durationMs, undefined, { ref: false }),
}: {
  readonly readLatest: () => Promise<LatestRecords>;
  /** Reserves a turn of bulk work, and returns how long to wait for it. */
  readonly reserveTurn: (
    durationMs: number,
  ) => Promise<LatestRecords & { readonly waitMs: number }>;
  readonly nowMs?: () => number;
  readonly pause?: (durationMs: number) => Promise<unknown>;
  /** Returns when the next step need not wait any longer for one that begins now. */
  readonly limitStep?: (durationMs: number) => Promise<unknown>;
}): BulkPace => {
  const steps = new AsyncLocalStorage<true>();
  const { note, isYielding, lookIfDue, recordsPerSecond } = observeClients(readLatest, nowMs);
  let previous: Promise<unknown> = Promise.resolve();
  let expectedMs = FIRST_STEP_MS;
  let pausedMs = 0;

  const runInTurn = async <Result>(
    step: () => Promise<Result>,
    onStart: () => void,
  ): Promise<Result> => {
    if (isYielding()) {
      const { waitMs, ...latest } = await reserveTurn(turnMs(expectedMs, recordsPerSecond()));
      note(latest);
      if (waitMs > 0) {
        pausedMs += waitMs;
        await pause(waitMs);
      }
    }
    onStart();
    const startedAtMs = nowMs();
    try {
      return await steps.run(true, step);
    } finally {
      expectedMs = nowMs() - startedAtMs;
    }
  };
  const run: BulkPace["run"] = async (step) => {
    if (steps.getStore() === true) {
      return step();
    }
    await lookIfDue();
    if (!isYielding()) {
      return steps.run(true, step);
    }
    const started = Promise.withResolvers<void>();
    const turn = previous.then(() => runInTurn(step, started.resolve));
    // A step can wait for a connection of its account, whose other reads are slow.
    const late = started.promise.then(() => limitStep(MAXIMUM_STEP_MS));
    previous = Promise.race([turn.catch(() => undefined), late]);
    return turn;
  };
  return {
    run,
    runEach: (items) => runEach(items, run),
    isYielding,
    lastStepMs: () => expectedMs,
    pausedMs: () => pausedMs,
  };
};

/** Opens a pace whose turns are in the database. */
export const openBulkPace = (db: CommonQueryMethods): BulkPace =>
  createBulkPace({
    // For all accounts: it must not count against the share of the account whose list is read.
    readLatest: () => runForAll(() => readLatestRecords(db)),
    reserveTurn: (durationMs) => runForAll(() => reserveBulkTurn(db, durationMs)),
  });

/** Returns the pool for bulk work: each statement or transaction is a step of the pace. */
export const openBulkPool = (pool: DatabasePool, pace: BulkPace): DatabasePool =>
  wrapPool(
    pool,
    (method) =>
      (...parameters) =>
        pace.run(() => method(...parameters)),
  );
