import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import { readDispatcherStatus, recordDispatcherPass } from "../db/billing/dispatcherLease.ts";
import type { DispatcherLease } from "../db/billing/dispatcherLease.ts";
import { listDueProcessorEvents } from "../db/billing/processorEvents.ts";
import { listWaitingRefunds, markRefundDispatched } from "../db/registrations/refunds.ts";
import type { WaitingStream } from "../db/billing/usageFacts.ts";
import { listWaitingStreams } from "../db/billing/usageFacts.ts";
import { listDueEndpoints } from "../db/webhooks/deliveries.ts";
import type { Clock } from "../domain/clock.ts";
import { lastSealableSecond } from "../domain/billing/usage.ts";
import { withTemporalDeadline } from "../program/temporalClient.ts";
import { findSender, restartSender, wakeSender } from "../program/usageSenders.ts";
import { processorEvents, processorEventsId } from "../workflows/processorEvents.ts";
import { refund, refundedSignal, refundWorkflowId } from "../workflows/refund.ts";
import { backgroundQueue, webhookQueue } from "../workflows/taskQueues.ts";
import {
  deliveriesDueSignal,
  webhookEndpoint,
  webhookEndpointWorkflowId,
} from "../workflows/webhookEndpoint.ts";
import { createOutageLog } from "./createOutageLog.ts";
import { forEachConcurrently } from "./forEachConcurrently.ts";
import { createSilenceLog } from "./createSilenceLog.ts";
import { runWithLease } from "./runWithLease.ts";
import { createWakeBackoff } from "./wakeBackoff.ts";
import { createWebhookWakes } from "./webhookWakes.ts";

/** Facts wait some seconds before they may be sealed, so more frequent passes would not report usage earlier. */
const PASS_INTERVAL_MS = 1000;
/** The pause before the next attempt to lead, after losing the lease or failing to acquire it. */
const LEAD_RETRY_INTERVAL_MS = 3000;
const CALL_TIMEOUT_MS = 4000;
const REFUNDS_PER_PASS = 200;

const pause = (delayMs: number, signal: AbortSignal): Promise<void> =>
  sleep(delayMs, undefined, { signal }).catch(() => undefined);

/** A leadership: its statements check the lease, and no work begins after the signal is aborted. */
type Leadership = { readonly lease: DispatcherLease; readonly signal: AbortSignal };

type DispatcherDependencies = {
  readonly db: DatabasePool;
  /** A connection of its own for the lease, so that a busy pool does not cost the leadership. */
  readonly leases: DatabasePool;
  readonly clock: Clock;
  readonly temporal: Client;
  /** The deployment's name in Temporal. */
  readonly deployment: string;
  readonly logger: Logger;
  /** How long the lease lasts without a renewal. */
  readonly leaseMs?: number;
  /** How long no worker dispatches before that is logged. */
  readonly toleratedSilenceMs?: number;
  /** After how many wakes without progress a sender is restarted, unless it waits for its next attempt. */
  readonly wakesUntilStuck?: number;
  /** Called when this process becomes the leader and when it is no longer. */
  readonly observeLeadership?: (isLeader: boolean) => void;
};

/** Returns what a leader does in each pass. */
const createPasses = ({
  db,
  clock,
  temporal,
  deployment,
  logger,
  wakesUntilStuck,
}: DispatcherDependencies): readonly ((leadership: Leadership) => Promise<void>)[] => {
  const taskQueue = backgroundQueue(deployment);
  const callTemporal = <Result>(work: () => Promise<Result>): Promise<Result> =>
    withTemporalDeadline(temporal, CALL_TIMEOUT_MS, work);

  const startRefund = async (
    { lease }: Leadership,
    waiting: { readonly id: string; readonly registrationId: string },
  ): Promise<void> => {
    await callTemporal(() =>
      temporal.workflow.signalWithStart(refund, {
        workflowId: refundWorkflowId(deployment, waiting.registrationId),
        taskQueue,
        args: [waiting.registrationId],
        signal: refundedSignal,
      }),
    );
    await markRefundDispatched(db, waiting.id, clock.now(), lease);
  };

  // Survives a failed pass, so that the failure does not wake every sender again.
  const backoff = createWakeBackoff(wakesUntilStuck);

  /** Restarts a sender that is stuck: a Temporal server that lost its latest state may never run its next task. */
  const restartStuckSender = async (stream: WaitingStream): Promise<void> => {
    const sender = await findSender(temporal, deployment, stream, clock.now());
    if (sender?.state === "idle") {
      await restartSender(temporal, deployment, stream, {
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

  const wakeSenders = async ({ signal }: Leadership): Promise<void> => {
    const now = clock.now();
    const ready = (await listWaitingStreams(db)).filter(
      ({ second }) => second <= lastSealableSecond(now),
    );
    await forEachConcurrently(backoff.due(ready, now), signal, async (stream) => {
      if (backoff.isStuck(stream)) {
        await callTemporal(() => restartStuckSender(stream));
      }
      await callTemporal(() => wakeSender(temporal, deployment, stream));
      backoff.recordWake(stream, now);
    });
  };

  const startRefunds = async (leadership: Leadership): Promise<void> => {
    const waiting = await listWaitingRefunds(db, REFUNDS_PER_PASS);
    await forEachConcurrently(waiting, leadership.signal, (each) => startRefund(leadership, each));
  };

  const startProcessorEvents = async (): Promise<void> => {
    if ((await listDueProcessorEvents(db, clock.now(), 1)).length > 0) {
      await callTemporal(() =>
        temporal.workflow.start(processorEvents, {
          workflowId: processorEventsId(deployment),
          workflowIdConflictPolicy: "USE_EXISTING",
          taskQueue,
          args: [],
        }),
      );
    }
  };

  const webhookWakes = createWebhookWakes();

  const wakeWebhookEndpoints = async ({ signal }: Leadership): Promise<void> => {
    const now = clock.now();
    const due = webhookWakes.due(await listDueEndpoints(db, now), now);
    await forEachConcurrently(due, signal, async (endpoint) => {
      const { endpointId } = endpoint;
      await callTemporal(() =>
        temporal.workflow.signalWithStart(webhookEndpoint, {
          workflowId: webhookEndpointWorkflowId(deployment, endpointId),
          taskQueue: webhookQueue(deployment),
          args: [endpointId],
          signal: deliveriesDueSignal,
        }),
      );
      webhookWakes.recordWake(endpoint, now);
    });
  };

  return [startRefunds, wakeSenders, startProcessorEvents, wakeWebhookEndpoints];
};

/**
 * Starts or wakes the workflows of what waits in the database: unreported usage, unsettled refunds, events of the
 * processor and deliveries to webhook endpoints. The rows are the outbox, so nothing is lost while Temporal or this process is down. The worker process that
 * holds the lease dispatches. A leader that has lost it without noticing does no harm: a second wake or start changes
 * nothing, a sender is restarted by its run id, and a statement that writes checks the lease.
 * @returns a promise that resolves after the signal is aborted
 */
export const runDispatcher = async (
  dependencies: DispatcherDependencies,
  signal: AbortSignal,
): Promise<void> => {
  const {
    db,
    leases,
    logger,
    leaseMs,
    toleratedSilenceMs,
    observeLeadership = () => undefined,
  } = dependencies;
  const passes = createPasses(dependencies);
  const silence = createSilenceLog(logger, toleratedSilenceMs);
  const logOutage = createOutageLog(
    logger,
    "the dispatcher failed and retries; usage, refunds and events wait in the database",
  );
  const holder = `${hostname()}/${process.pid}/${crypto.randomUUID().slice(0, 8)}`;

  const lead = async (lease: DispatcherLease, leading: AbortSignal): Promise<void> => {
    while (!leading.aborted) {
      // A failure of one does not keep the others from running.
      const failures: unknown[] = [];
      for (const pass of passes) {
        await pass({ lease, signal: leading }).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) {
        throw failures[0];
      }
      if (leading.aborted || !(await recordDispatcherPass(db, lease))) {
        return;
      }
      silence.observePass();
      silence.check(holder);
      await pause(PASS_INTERVAL_MS, leading);
    }
  };

  const leadIfFree = (): Promise<boolean> =>
    runWithLease(
      { db: leases, holder, ...(leaseMs === undefined ? {} : { leaseMs }) },
      async (lease, leading) => {
        observeLeadership(true);
        try {
          await lead(lease, leading);
        } finally {
          observeLeadership(false);
        }
      },
      signal,
    );

  let leader: string | null = null;
  while (!signal.aborted) {
    try {
      await leadIfFree();
      const status = await readDispatcherStatus(leases);
      leader = status.isHeld ? status.holder : null;
      silence.observePass(status.lastPassAgeSeconds * 1000);
    } catch (error) {
      logOutage(error);
    }
    silence.check(leader);
    await pause(LEAD_RETRY_INTERVAL_MS, signal);
  }
};
