import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { releaseDispatcherLock, tryDispatcherLock } from "../db/billing/dispatcherLock.ts";
import { listWaitingRefunds, markRefundDispatched } from "../db/registrations/refunds.ts";
import type { WaitingStream } from "../db/billing/usageFacts.ts";
import { listWaitingStreams } from "../db/billing/usageFacts.ts";
import type { Clock } from "../domain/clock.ts";
import { refundIdOf } from "../domain/registrations/refund.ts";
import { lastSealableSecond } from "../domain/billing/usage.ts";
import { withTemporalDeadline } from "../program/withTemporalDeadline.ts";
import { refund, refundedSignal } from "../workflows/refund.ts";
import { usageSender, usageSenderWorkflowId, wakeSignal } from "../workflows/usageSender.ts";
import { createWakeSchedule } from "./wakeSchedule.ts";

/** Facts wait some seconds before they may be sealed, so nothing is gained by looking more often. */
const PASS_INTERVAL_MS = 1000;
const RECOVERY_MS = 3000;
const CALL_WITHIN_MS = 4000;
const CALLS_AT_ONCE = 16;
const REFUNDS_A_PASS = 200;

/**
 * After so long another process may lead. A pass whose calls all run into their deadline asks nothing of the database
 * for a minute, and a leader that the database does not answer any more knows it after another.
 */
const LEADER_SILENCE_MS = 2 * 60 * 1000;

/**
 * Does the work for every item, also where it fails for others.
 * @throws Error with the first failure as its cause, when all items have had their turn
 */
const inParallel = async <Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const queue = items.values();
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.min(CALLS_AT_ONCE, items.length) }, async () => {
    for (const item of queue) {
      await work(item).catch((error: unknown) => failures.push(error));
    }
  });
  await Promise.all(workers);
  if (failures.length > 0) {
    throw new Error(`${failures.length} of ${items.length} could not be started or woken.`, {
      cause: failures[0],
    });
  }
};

/**
 * Starts and wakes workflows for what waits in the database: usage to report and refunds to see through. The rows are
 * the outbox, so nothing is lost while Temporal or this process is down. Of several worker processes one dispatches at a
 * time; waking twice would do no harm.
 * @returns a promise that resolves when the signal has ended it
 */
export const runDispatcher = async (
  {
    db,
    clock,
    temporal,
    taskQueue,
    logger,
    silenceMs = LEADER_SILENCE_MS,
  }: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly temporal: Client;
    readonly taskQueue: string;
    readonly logger: Logger;
    readonly silenceMs?: number;
  },
  signal: AbortSignal,
): Promise<void> => {
  const call = <Result>(work: () => Promise<Result>): Promise<Result> =>
    withTemporalDeadline(temporal, CALL_WITHIN_MS, work);

  const wakeSender = async ({ accountId, mode, meter }: WaitingStream): Promise<void> => {
    const stream = { accountId, mode, meter };
    await call(() =>
      temporal.workflow.signalWithStart(usageSender, {
        workflowId: usageSenderWorkflowId(stream),
        taskQueue,
        args: [stream],
        signal: wakeSignal,
      }),
    );
  };

  const startRefund = async (
    connection: CommonQueryMethods,
    waiting: { readonly id: string; readonly registrationId: string },
  ): Promise<void> => {
    await call(() =>
      temporal.workflow.signalWithStart(refund, {
        workflowId: refundIdOf(waiting.registrationId),
        taskQueue,
        args: [waiting.registrationId],
        signal: refundedSignal,
      }),
    );
    await markRefundDispatched(connection, waiting.id, clock.now());
  };

  const pause = (delayMs: number): Promise<void> =>
    sleep(delayMs, undefined, { signal }).catch(() => undefined);

  // Outlives a pass that fails, so that its failures do not wake everybody.
  const wakes = createWakeSchedule();

  const wakeSenders = async (connection: CommonQueryMethods): Promise<void> => {
    const now = clock.now();
    const ready = (await listWaitingStreams(connection)).filter(
      ({ second }) => second <= lastSealableSecond(now),
    );
    await inParallel(wakes.due(ready, now), async (stream) => {
      await wakeSender(stream);
      wakes.woken(stream, now);
    });
  };

  const startRefunds = async (connection: CommonQueryMethods): Promise<void> => {
    await inParallel(await listWaitingRefunds(connection, REFUNDS_A_PASS), (waiting) =>
      startRefund(connection, waiting),
    );
  };

  /** Works on the connection that holds the lock, so that losing the one ends the other. */
  const lead = async (connection: CommonQueryMethods): Promise<void> => {
    while (!signal.aborted) {
      // Neither has to wait for what is wrong with the other.
      const failures: unknown[] = [];
      for (const pass of [startRefunds, wakeSenders]) {
        await pass(connection).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) {
        throw failures[0];
      }
      await pause(PASS_INTERVAL_MS);
    }
  };

  while (!signal.aborted) {
    try {
      await db.connect(async (connection) => {
        if (await tryDispatcherLock(connection, silenceMs)) {
          try {
            await lead(connection);
          } finally {
            await releaseDispatcherLock(connection);
          }
        }
      });
    } catch (error) {
      logger.warn({ err: error }, "dispatching paused; what waits in the database is kept");
    }
    await pause(RECOVERY_MS);
  }
};
