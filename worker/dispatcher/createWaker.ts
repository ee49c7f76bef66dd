import { findSender, terminateSender } from "../senders.ts";
import { forEachConcurrently } from "../forEachConcurrently.ts";
import { callTemporal } from "../callTemporal.ts";
import type { DispatchContext } from "./passes/pass.ts";
import { createWakeBackoff } from "./wakeBackoff.ts";
import type { Waiting } from "./wakeBackoff.ts";

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
