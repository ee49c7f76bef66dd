import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { releaseDispatcherLock, tryDispatcherLock } from "../db/billing/dispatcherLock.ts";
import { listDueProcessorEvents } from "../db/billing/processorEvents.ts";
import { listWaitingRefunds, markRefundDispatched } from "../db/registrations/refunds.ts";
import type { WaitingStream } from "../db/billing/usageFacts.ts";
import { listWaitingStreams } from "../db/billing/usageFacts.ts";
import type { Clock } from "../domain/clock.ts";
import { refundIdOf } from "../domain/registrations/decideRefund.ts";
import { lastSealableSecond } from "../domain/billing/usage.ts";
import { withTemporalDeadline } from "../program/temporalClient.ts";
import { findSender, restartSender, wakeSender } from "../program/usageSenders.ts";
import { processorEvents, PROCESSOR_EVENTS_ID } from "../workflows/processorEvents.ts";
import { refund, refundedSignal } from "../workflows/refund.ts";
import { createWakeBackoff } from "./wakeBackoff.ts";

/** Facts wait some seconds before they may be sealed, so more frequent passes would not report usage earlier. */
const PASS_INTERVAL_MS = 1000;
/** The pause before the next attempt to lead, after losing the lock or failing to acquire it. */
const LEAD_RETRY_INTERVAL_MS = 3000;
const CALL_TIMEOUT_MS = 4000;
const MAX_CONCURRENT_CALLS = 16;
const REFUNDS_PER_PASS = 200;

/**
 * The idle time after which the database ends the leader's session, so that another process can lead. It exceeds the
 * longest pass without a query, of about a minute, in which every call to Temporal times out.
 */
const LEADER_IDLE_TIMEOUT_MS = 2 * 60 * 1000;

/**
 * Does the work for every item, even if it fails for some.
 * @throws Error with the first failure as its cause, after all items
 */
const forEachConcurrently = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const queue = items.values();
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.min(MAX_CONCURRENT_CALLS, items.length) }, async () => {
    for (const item of queue) {
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
 * Starts or wakes the workflows of what waits in the database: unreported usage, unsettled refunds and events of the
 * processor. The rows are the outbox, so nothing is lost while Temporal or this process is down. One worker process at a time dispatches; a second
 * wake would do no harm.
 * @returns a promise that resolves after the signal is aborted
 */
export const runDispatcher = async (
  {
    db,
    clock,
    temporal,
    taskQueue,
    logger,
    leaderIdleTimeoutMs = LEADER_IDLE_TIMEOUT_MS,
    wakesUntilStuck,
    observePass = () => undefined,
  }: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly temporal: Client;
    readonly taskQueue: string;
    readonly logger: Logger;
    readonly leaderIdleTimeoutMs?: number;
    /** After how many wakes without progress a sender is restarted, unless it waits for its next attempt. */
    readonly wakesUntilStuck?: number;
    /** Called after each complete pass. */
    readonly observePass?: () => void;
  },
  signal: AbortSignal,
): Promise<void> => {
  const callTemporal = <Result>(work: () => Promise<Result>): Promise<Result> =>
    withTemporalDeadline(temporal, CALL_TIMEOUT_MS, work);

  const pause = (delayMs: number): Promise<void> =>
    sleep(delayMs, undefined, { signal }).catch(() => undefined);

  const startRefund = async (
    connection: CommonQueryMethods,
    waiting: { readonly id: string; readonly registrationId: string },
  ): Promise<void> => {
    await callTemporal(() =>
      temporal.workflow.signalWithStart(refund, {
        workflowId: refundIdOf(waiting.registrationId),
        taskQueue,
        args: [waiting.registrationId],
        signal: refundedSignal,
      }),
    );
    await markRefundDispatched(connection, waiting.id, clock.now());
  };

  // Survives a failed pass, so that the failure does not wake every sender again.
  const backoff = createWakeBackoff(wakesUntilStuck);

  /** Restarts a sender that is stuck: a Temporal server that lost its latest state may never run its next task. */
  const restartStuckSender = async (stream: WaitingStream): Promise<void> => {
    const sender = await findSender(temporal, stream, clock.now());
    if (sender?.state === "idle") {
      await restartSender(temporal, taskQueue, stream, {
        runId: sender.runId,
        reason: "woken several times without progress",
      });
      const { accountId, mode, meter, second } = stream;
      logger.warn(
        { accountId, mode, meter, second, runId: sender.runId },
        "a usage sender made no progress and was restarted",
      );
    }
    backoff.recordRestart(stream);
  };

  const wakeSenders = async (connection: CommonQueryMethods): Promise<void> => {
    const now = clock.now();
    const ready = (await listWaitingStreams(connection)).filter(
      ({ second }) => second <= lastSealableSecond(now),
    );
    await forEachConcurrently(backoff.due(ready, now), async (stream) => {
      if (backoff.isStuck(stream)) {
        await callTemporal(() => restartStuckSender(stream));
      }
      await callTemporal(() => wakeSender(temporal, taskQueue, stream));
      backoff.recordWake(stream, now);
    });
  };

  const startRefunds = async (connection: CommonQueryMethods): Promise<void> => {
    await forEachConcurrently(await listWaitingRefunds(connection, REFUNDS_PER_PASS), (waiting) =>
      startRefund(connection, waiting),
    );
  };

  const startProcessorEvents = async (connection: CommonQueryMethods): Promise<void> => {
    if ((await listDueProcessorEvents(connection, clock.now(), 1)).length > 0) {
      await callTemporal(() =>
        temporal.workflow.start(processorEvents, {
          workflowId: PROCESSOR_EVENTS_ID,
          workflowIdConflictPolicy: "USE_EXISTING",
          taskQueue,
          args: [],
        }),
      );
    }
  };

  /** Runs passes on the connection that holds the lock, so that losing the connection ends the leadership. */
  const lead = async (connection: CommonQueryMethods): Promise<void> => {
    while (!signal.aborted) {
      // A failure of one does not keep the others from running.
      const failures: unknown[] = [];
      for (const pass of [startRefunds, wakeSenders, startProcessorEvents]) {
        await pass(connection).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) {
        throw failures[0];
      }
      observePass();
      await pause(PASS_INTERVAL_MS);
    }
  };

  while (!signal.aborted) {
    try {
      await db.connect(async (connection) => {
        if (await tryDispatcherLock(connection, leaderIdleTimeoutMs)) {
          try {
            await lead(connection);
          } finally {
            await releaseDispatcherLock(connection);
          }
        }
      });
    } catch (error) {
      logger.warn(
        { err: error },
        "the dispatcher failed and retries; usage, refunds and events wait in the database",
      );
    }
    await pause(LEAD_RETRY_INTERVAL_MS);
  }
};
