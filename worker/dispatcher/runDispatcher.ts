import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import { readDeployment } from "../../db/billing/deployment.ts";
import {
  readDispatcherStatus,
  recordDispatcherPass,
} from "../../db/billing/sending/dispatcherLease.ts";
import type { DispatcherLease } from "../../db/billing/sending/dispatcherLease.ts";
import { listDueProcessorEvents } from "../../db/billing/processorEvents/processorEvents.ts";
import { listWaitingRefunds, markRefundsDispatched } from "../../db/registrations/refunds.ts";
import type { WaitingRefunds } from "../../db/registrations/refunds.ts";
import type { TroubledStream } from "../../db/billing/sending/usageShards.ts";
import { listTroubledStreams } from "../../db/billing/sending/usageShards.ts";
import { listShardStatuses } from "../../db/shards.ts";
import { failPendingDeliveries } from "../../db/webhooks/deliveries.ts";
import { makeFutureDeliveriesDue } from "../../db/webhooks/recovery.ts";
import type { Clock } from "../../domain/clock.ts";
import { secondOf, streamKey } from "../../domain/billing/usage.ts";
import { SHARD_KINDS, SHARD_NUMBERS } from "../../domain/shards.ts";
import type { ShardKind } from "../../domain/shards.ts";
import { shardSenderId, startShardSender } from "../../program/temporal/shardSenders.ts";
import { withTemporalDeadline } from "../../program/temporal/temporalClient.ts";
import { findSender, terminateSender, wakeSender } from "../../program/temporal/usageSenders.ts";
import { createScanPace } from "../../services/createScanPace.ts";
import { processorEvents, processorEventsId } from "../../workflows/processorEvents.ts";
import { refund, refundedSignal, refundWorkflowId } from "../../workflows/refund.ts";
import { backgroundQueue } from "../../workflows/taskQueues.ts";
import { subscriptionSweep, subscriptionSweepId } from "../../workflows/subscriptionSweep.ts";
import { usageSenderWorkflowId } from "../../workflows/usageSender.ts";
import { createOutageLog } from "../createOutageLog.ts";
import { forEachConcurrently } from "../forEachConcurrently.ts";
import { createSilenceLog } from "./createSilenceLog.ts";
import { runWithLease } from "./runWithLease.ts";
import { createWakeBackoff } from "./wakeBackoff.ts";
import type { WakeBackoff } from "./wakeBackoff.ts";

const PASS_INTERVAL_MS = 1000;
/** The pause before the next attempt to lead, after losing the lease or failing to acquire it. */
const LEAD_RETRY_INTERVAL_MS = 3000;
const CALL_TIMEOUT_MS = 4000;
/** One signal for each registration, and one statement that marks its refunds. */
const PER_PASS = { registrations: 200, refunds: 5000 };
/** How often the dispatcher looks for deliveries from before the clock was set back. */
const CHECK_TIMES_INTERVAL_MS = 60 * 1000;

/** The schedule has swept all subscriptions since a release that is older than this. */
const SWEEP_INTERVAL_MS = 24 * 60 * 60 * 1000;

/**
 * A shard's sender looks for work every second, or less often if that takes long, and pauses for three seconds after an error.
 * Starting one that is not silent does nothing.
 */
const SILENT_AFTER_SECONDS = 10;

/** Stands for the last pass of a shard that never had one. */
const NEVER = { ageSeconds: Infinity, lastPassAt: new Date(0) };

/** A shard whose sender has not looked for work for some seconds; `second` is when it last did. */
type SilentShard = {
  readonly kind: ShardKind;
  readonly shard: number;
  readonly second: number;
  readonly attempts: 0;
};

/** The longest due event of the processor. Its attempts, and thus its `second`, change when it is processed. */
type WaitingProcessorEvent = {
  readonly id: string;
  readonly second: number;
  readonly attempts: number;
};

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
    { registrationId, ids }: WaitingRefunds,
  ): Promise<void> => {
    await callTemporal(() =>
      temporal.workflow.signalWithStart(refund, {
        workflowId: refundWorkflowId(deployment, registrationId),
        taskQueue,
        args: [registrationId],
        signal: refundedSignal,
      }),
    );
    await markRefundsDispatched(db, ids, clock.now(), lease);
  };

  const troublePace = createScanPace();
  let troubled: readonly TroubledStream[] = [];
  // They survive a failed pass, so that the failure does not wake every sender again.
  const troubleBackoff = createWakeBackoff<TroubledStream>(streamKey, wakesUntilStuck);
  const shardBackoff = createWakeBackoff<SilentShard>(
    ({ kind, shard }) => `${kind}/${shard}`,
    wakesUntilStuck,
  );
  const processorEventBackoff = createWakeBackoff<WaitingProcessorEvent>(
    ({ id }) => id,
    wakesUntilStuck,
  );

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

  /** Starts or wakes what is due, and restarts what is stuck. */
  const wakeDue = <Item extends { readonly second: number; readonly attempts: number }>(
    items: readonly Item[],
    backoff: WakeBackoff<Item>,
    {
      signal,
      workflowIdOf,
      wake,
    }: {
      readonly signal: AbortSignal;
      readonly workflowIdOf: (item: Item) => string;
      readonly wake: (item: Item) => Promise<void>;
    },
  ): Promise<void> => {
    const now = clock.now();
    return forEachConcurrently(backoff.due(items, now), signal, async (item) => {
      if (backoff.isStuck(item)) {
        await callTemporal(() => terminateStuck(workflowIdOf(item)));
        backoff.recordRestart(item);
      }
      await callTemporal(() => wake(item));
      backoff.recordWake(item, now);
    });
  };

  const listSilentShards = async (kind: ShardKind): Promise<readonly SilentShard[]> => {
    const statuses = new Map(
      (await listShardStatuses(db, kind)).map((status) => [status.number, status]),
    );
    return SHARD_NUMBERS.flatMap((shard): readonly SilentShard[] => {
      const { ageSeconds, lastPassAt } = statuses.get(shard) ?? NEVER;
      // A pass in the future was recorded before the clock was set back.
      return Math.abs(ageSeconds) > SILENT_AFTER_SECONDS
        ? [{ kind, shard, second: secondOf(lastPassAt), attempts: 0 }]
        : [];
    });
  };

  /** Starts the senders of the shards. They run for ever, so this does nothing unless one was lost. */
  const startShardSenders = async ({ signal }: Leadership): Promise<void> => {
    const silent = await Promise.all(SHARD_KINDS.map(listSilentShards));
    await wakeDue(silent.flat(), shardBackoff, {
      signal,
      workflowIdOf: ({ kind, shard }) => shardSenderId(deployment, kind, shard),
      wake: ({ kind, shard }) => startShardSender(temporal, deployment, kind, shard),
    });
  };

  /** Starts or wakes the senders of streams whose events fail again and again. */
  const wakeSenders = async ({ signal }: Leadership): Promise<void> => {
    if (troublePace.isDue()) {
      troubled = await troublePace.scan(() => listTroubledStreams(db));
    }
    await wakeDue(troubled, troubleBackoff, {
      signal,
      workflowIdOf: (stream) => usageSenderWorkflowId(deployment, stream),
      wake: (stream) => wakeSender(temporal, deployment, stream),
    });
  };

  let lastAccountId: string | null = null;

  const startRefunds = async (leadership: Leadership): Promise<void> => {
    const waiting = await listWaitingRefunds(db, PER_PASS, lastAccountId);
    const accountIds = [...new Set(waiting.map(({ accountId }) => accountId))].toSorted();
    lastAccountId = accountIds.length < PER_PASS.registrations ? null : (accountIds.at(-1) ?? null);
    await forEachConcurrently(waiting, leadership.signal, (each) => startRefund(leadership, each));
  };

  const startProcessorEvents = async ({ signal }: Leadership): Promise<void> => {
    const waiting = (await listDueProcessorEvents(db, clock.now(), 1)).map(
      ({ id, attempts }): WaitingProcessorEvent => ({ id, second: attempts, attempts }),
    );
    await wakeDue(waiting, processorEventBackoff, {
      signal,
      workflowIdOf: () => processorEventsId(deployment),
      wake: async () => {
        await temporal.workflow.start(processorEvents, {
          workflowId: processorEventsId(deployment),
          workflowIdConflictPolicy: "USE_EXISTING",
          taskQueue,
          args: [],
        });
      },
    });
  };

  let sweptFor: string | null = null;

  /**
   * Has all subscriptions read again when a hold begins, and when it ends: both may happen while no worker runs. The hold
   * may follow a restore, which has lost what Stripe announced since the restored time. The workflow's id makes it one sweep
   * each time, also for the next leaders.
   */
  const startSweepOfHold = async (): Promise<void> => {
    const { hold, releasedAt } = await readDeployment(db);
    const isReleaseRecent =
      releasedAt !== null && clock.now().getTime() - releasedAt.getTime() < SWEEP_INTERVAL_MS;
    const changedAt = hold?.at ?? (isReleaseRecent ? releasedAt : null);
    const time = changedAt?.toISOString() ?? null;
    if (time === null || time === sweptFor) {
      return;
    }
    try {
      await callTemporal(() =>
        temporal.workflow.start(subscriptionSweep, {
          workflowId: `${subscriptionSweepId(deployment)}-${time}`,
          workflowIdReusePolicy: "REJECT_DUPLICATE",
          taskQueue,
          args: [],
        }),
      );
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
        throw error;
      }
    }
    sweptFor = time;
  };

  let checkedTimesAtMs = Number.NEGATIVE_INFINITY;

  const checkDeliveryTimes = async (): Promise<void> => {
    if (performance.now() - checkedTimesAtMs >= CHECK_TIMES_INTERVAL_MS) {
      await makeFutureDeliveriesDue(db, clock.now());
      checkedTimesAtMs = performance.now();
    }
  };

  const endingPace = createScanPace();

  /** Ends a part of what is pending at disabled endpoints: more than ends with the disabling, or what was recorded meanwhile. */
  const endDeliveries = async (): Promise<void> => {
    if (endingPace.isDue()) {
      await endingPace.scan(() => failPendingDeliveries(db, null));
    }
  };

  return [
    startRefunds,
    startShardSenders,
    wakeSenders,
    startProcessorEvents,
    startSweepOfHold,
    checkDeliveryTimes,
    endDeliveries,
  ];
};

/**
 * Starts or wakes the workflows of what waits in the database: unreported usage, unsettled refunds, events of the
 * processor and deliveries to webhook endpoints. The rows are the outbox, so nothing is lost while Temporal or this process
 * is down. The worker process that holds the lease dispatches. A leader that has lost the lease without noticing does no
 * harm: a second wake or start changes nothing, a stuck workflow is terminated by its run id, and a statement that writes
 * checks the lease.
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
