import { findSender, terminateSender } from "./senders.ts";
import { callTemporal } from "./repeatedCalls.ts";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DispatcherLease } from "../modules/billing/sending/dispatcherLease.sql.ts";
import type { Context } from "../runtime/context.ts";

/** A leadership: its statements check the lease, and no work begins after the signal is aborted. */
type Leadership = { readonly lease: DispatcherLease; readonly signal: AbortSignal };

/** A kind of work that a leader does once a second. It may keep what it knows for the next pass, also of a later leadership. */
export type Pass = (leadership: Leadership) => Promise<void>;

export type DispatchContext = Context & {
  readonly temporal: Client;
  /** The deployment's name in Temporal. */
  readonly deployment: string;
  readonly logger: Logger;
  /** After how many wakes without progress a workflow is restarted, unless it waits for its next attempt. */
  readonly wakesUntilStuck?: number;
};

const MAX_CONCURRENT_CALLS = 16;

/**
 * Does the work for every item until the signal is aborted, even if it fails for some.
 * @throws Error with the first failure as its cause, after all items
 */
export const forEachConcurrently = async <Item>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const queue = items.values();
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.min(MAX_CONCURRENT_CALLS, items.length) }, async () => {
    for (const item of queue) {
      if (signal.aborted) {
        return;
      }
      await work(item).catch((error: unknown) => failures.push(error));
    }
  });
  await Promise.all(workers);
  if (failures.length > 0) {
    throw new Error(`${failures.length} of ${items.length} workflows could not be signaled.`, {
      cause: failures[0],
    });
  }
};

/**
 * The delay before what makes no progress is woken again; it doubles up to the maximum. Its workflow waits
 * for the other side, or was terminated and has to be started again.
 */
const INITIAL_DELAY_MS = 2000;
const MAX_DELAY_MS = 60 * 1000;

/**
 * A small Temporal server runs about 60 short workflows a second, and a wake costs about as much as one. With more
 * items than that, each is woken less often.
 */
const MAX_WAKES_PER_PASS = 40;

/** The wakes without progress, in about three minutes, after which a workflow may be stuck. */
const WAKES_UNTIL_STUCK = 7;

type Wake = {
  readonly second: number;
  readonly attempts: number;
  readonly atMs: number;
  readonly delayMs: number;
  /** How often the item was woken since it last made progress or was restarted. */
  readonly wakes: number;
};

/** What waits for a workflow: the second or the attempts change when that makes progress. */
type Waiting = { readonly second: number; readonly attempts: number };

type WakeBackoff<Item extends Waiting> = {
  /** Returns those to wake now, the longest waiting first. */
  readonly due: (items: readonly Item[], now: Date) => readonly Item[];
  readonly recordWake: (item: Item, now: Date) => void;
  /** Returns whether it has been woken several times without progress. */
  readonly isStuck: (item: Item) => boolean;
  /** Records that the workflow was restarted or found to be waiting, so that it is not stuck for now. */
  readonly recordRestart: (item: Item) => void;
};

/**
 * Decides when the workflow of what waits is woken: immediately when the second has changed, because it has made
 * progress; otherwise with exponential backoff.
 */
export const createWakeBackoff = <Item extends Waiting>(
  keyOf: (item: Item) => string,
  wakesUntilStuck = WAKES_UNTIL_STUCK,
): WakeBackoff<Item> => {
  let wakes = new Map<string, Wake>();
  /** Returns the last wake if there was no progress since then. */
  const findFruitlessWake = (item: Item): Wake | undefined => {
    const wake = wakes.get(keyOf(item));
    return wake?.second === item.second && wake.attempts === item.attempts ? wake : undefined;
  };
  return {
    due: (items, now) => {
      const earlierWakes = wakes;
      const nowMs = now.getTime();
      wakes = new Map();
      const due: { readonly item: Item; readonly lastWakeMs: number }[] = [];
      for (const item of items) {
        const earlier = earlierWakes.get(keyOf(item));
        // A wake in the future was recorded before the clock was set back.
        const wake = earlier && earlier.atMs <= nowMs ? earlier : undefined;
        if (wake) {
          wakes.set(keyOf(item), wake);
        }
        const isDue = !wake || wake.second !== item.second || nowMs - wake.atMs >= wake.delayMs;
        if (isDue) {
          due.push({ item, lastWakeMs: wake?.atMs ?? 0 });
        }
      }
      return due
        .toSorted((left, right) => left.lastWakeMs - right.lastWakeMs)
        .slice(0, MAX_WAKES_PER_PASS)
        .map(({ item }) => item);
    },
    recordWake: (item, now) => {
      const earlier = wakes.get(keyOf(item));
      const delayMs =
        earlier?.second === item.second
          ? Math.min(earlier.delayMs * 2, MAX_DELAY_MS)
          : INITIAL_DELAY_MS;
      wakes.set(keyOf(item), {
        second: item.second,
        attempts: item.attempts,
        atMs: now.getTime(),
        delayMs,
        wakes: (findFruitlessWake(item)?.wakes ?? 0) + 1,
      });
    },
    isStuck: (item) => (findFruitlessWake(item)?.wakes ?? 0) >= wakesUntilStuck,
    recordRestart: (item) => {
      const wake = wakes.get(keyOf(item));
      if (wake) {
        wakes.set(keyOf(item), { ...wake, wakes: 0 });
      }
    },
  };
};

/**
 * Returns a function that starts or wakes the workflows of what waits, and restarts those that are stuck. It remembers its
 * wakes, so that a failed pass does not wake every workflow again.
 */
export const createWaker = <Item extends Waiting>(
  { temporal, clock, logger, wakesUntilStuck }: DispatchContext,
  {
    keyOf,
    workflowIdOf,
    wake,
  }: {
    readonly keyOf: (item: Item) => string;
    readonly workflowIdOf: (item: Item) => string;
    readonly wake: (item: Item) => Promise<unknown>;
  },
): ((items: readonly Item[], signal: AbortSignal) => Promise<void>) => {
  const backoff = createWakeBackoff(keyOf, wakesUntilStuck);

  /**
   * Terminates a workflow that is stuck: a Temporal server that lost its latest state may never run its next task. One
   * that waits for its next attempt is not stuck.
   */
  const terminateStuck = async (workflowId: string): Promise<void> => {
    const sender = await findSender(temporal, workflowId, clock.now());
    if (sender?.state === "idle") {
      const { runId } = sender;
      const reason = "woken several times without progress";
      await terminateSender(temporal, workflowId, { runId, reason });
      logger.warn({ workflowId, runId }, "a workflow made no progress and was restarted");
    }
  };

  return (items, signal) => {
    const now = clock.now();
    return forEachConcurrently(backoff.due(items, now), signal, async (item) => {
      if (backoff.isStuck(item)) {
        await callTemporal(temporal, () => terminateStuck(workflowIdOf(item)));
        backoff.recordRestart(item);
      }
      await callTemporal(temporal, () => wake(item));
      backoff.recordWake(item, now);
    });
  };
};
