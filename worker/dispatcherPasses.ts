import { listWaitingRefunds, markRefundsDispatched } from "../modules/registrations/refunds.sql.ts";
import { refund, refundedSignal } from "../workflows/refund.ts";
import {
  backgroundQueue,
  refundWorkflowId,
  usageSenderWorkflowId,
  processorEventsId,
  subscriptionSweepId,
} from "../runtime/temporalNames.rules.ts";
import { forEachConcurrently, createWaker } from "./createWaker.ts";
import { callTemporal } from "./repeatedCalls.ts";
import type { Pass, DispatchContext } from "./createWaker.ts";
import type { DatabasePool } from "slonik";
import { listShardStatuses } from "../db/shards.sql.ts";
import { secondOf, DAY_MS } from "../runtime/durations.rules.ts";
import { SHARD_KINDS, SHARD_NUMBERS } from "../db/shards.rules.ts";
import type { ShardKind } from "../db/shards.rules.ts";
import { shardSenderId, startShardSender, wakeSender } from "./senders.ts";
import { ownerKey } from "../modules/records/owner.rules.ts";
import type { WaitingStream } from "../modules/billing/sending/waitingStreams.sql.ts";
import { listTroubledStreams } from "../modules/billing/sending/waitingStreams.sql.ts";
import { createScanPace } from "../db/createScanPace.ts";
import { listDueProcessorEvents } from "../modules/billing/processorEvents/processorEvents.sql.ts";
import { processorEvents } from "../workflows/processorEvents.ts";
import { WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
import { subscriptionSweep } from "../workflows/subscriptionSweep.ts";
import { failPendingDeliveries } from "../modules/events/deliveries.sql.ts";
import { makeFutureDeliveriesDue } from "../modules/events/recovery.sql.ts";

/** One signal for each registration, and one statement that marks its refunds. */
const PER_PASS = { registrations: 200, refunds: 5000 };

/** Starts or signals the workflows of refunds that wait. The accounts take turns. */
const createStartRefunds = ({ db, clock, temporal, deployment }: DispatchContext): Pass => {
  let lastAccountId: string | null = null;
  return async ({ lease, signal }) => {
    const waiting = await listWaitingRefunds(db, PER_PASS, lastAccountId);
    const accountIds = [...new Set(waiting.map(({ accountId }) => accountId))].toSorted();
    lastAccountId = accountIds.length < PER_PASS.registrations ? null : (accountIds.at(-1) ?? null);
    await forEachConcurrently(waiting, signal, async ({ registrationId, ids }) => {
      await callTemporal(temporal, () =>
        temporal.workflow.signalWithStart(refund, {
          workflowId: refundWorkflowId(deployment, registrationId),
          taskQueue: backgroundQueue(deployment),
          args: [registrationId],
          signal: refundedSignal,
        }),
      );
      await markRefundsDispatched(db, ids, clock.now(), lease);
    });
  };
};

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

const listSilentShards = async (
  db: DatabasePool,
  kind: ShardKind,
): Promise<readonly SilentShard[]> => {
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
const createStartShardSenders = (context: DispatchContext): Pass => {
  const { db, temporal, deployment } = context;
  const wakeAll = createWaker<SilentShard>(context, {
    keyOf: ({ kind, shard }) => `${kind}/${shard}`,
    workflowIdOf: ({ kind, shard }) => shardSenderId(deployment, kind, shard),
    wake: ({ kind, shard }) => startShardSender(temporal, deployment, kind, shard),
  });
  return async ({ signal }) => {
    const silent = await Promise.all(SHARD_KINDS.map((kind) => listSilentShards(db, kind)));
    await wakeAll(silent.flat(), signal);
  };
};

/** Starts or wakes the senders of streams whose events fail again and again. */
const createWakeSenders = (context: DispatchContext): Pass => {
  const { db, temporal, deployment } = context;
  const pace = createScanPace();
  let troubled: readonly WaitingStream[] = [];
  const wakeAll = createWaker<WaitingStream>(context, {
    keyOf: ownerKey,
    workflowIdOf: (stream) => usageSenderWorkflowId(deployment, stream),
    wake: (stream) => wakeSender(temporal, deployment, stream),
  });
  return async ({ signal }) => {
    if (pace.isDue()) {
      troubled = await pace.scan(() => listTroubledStreams(db));
    }
    await wakeAll(troubled, signal);
  };
};

/** The longest due event of the processor. Its attempts, and thus its `second`, change when it is processed. */
type WaitingProcessorEvent = {
  readonly id: string;
  readonly second: number;
  readonly attempts: number;
};

/** Starts the workflow that processes the processor's events, if one is due. */
const createStartProcessorEvents = (context: DispatchContext): Pass => {
  const { db, clock, temporal, deployment } = context;
  const wakeAll = createWaker<WaitingProcessorEvent>(context, {
    keyOf: ({ id }) => id,
    workflowIdOf: () => processorEventsId(deployment),
    wake: () =>
      temporal.workflow.start(processorEvents, {
        workflowId: processorEventsId(deployment),
        workflowIdConflictPolicy: "USE_EXISTING",
        taskQueue: backgroundQueue(deployment),
        args: [],
      }),
  });
  return async ({ signal }) => {
    const waiting = (await listDueProcessorEvents(db, clock.now(), 1)).map(
      ({ id, attempts }): WaitingProcessorEvent => ({ id, second: attempts, attempts }),
    );
    await wakeAll(waiting, signal);
  };
};

/** The schedule has swept all subscriptions since a release that is older than this. */
const SWEEP_INTERVAL_MS = DAY_MS;

/**
 * Has all subscriptions read again when a hold begins, and when it ends: both may happen while no worker runs. The hold
 * may follow a restore, which has lost what Stripe announced since the restored time. The workflow's id makes it one sweep
 * each time, also for the next leaders.
 */
const createStartSweepOfHold = ({ db, clock, temporal, deployment }: DispatchContext): Pass => {
  let sweptFor: string | null = null;
  return async () => {
    const { hold, releasedAt } = await readDeployment(db);
    const isReleaseRecent =
      releasedAt !== null && clock.now().getTime() - releasedAt.getTime() < SWEEP_INTERVAL_MS;
    const changedAt = hold?.at ?? (isReleaseRecent ? releasedAt : null);
    const time = changedAt?.toISOString() ?? null;
    if (time === null || time === sweptFor) {
      return;
    }
    try {
      await callTemporal(temporal, () =>
        temporal.workflow.start(subscriptionSweep, {
          workflowId: `${subscriptionSweepId(deployment)}-${time}`,
          workflowIdReusePolicy: "REJECT_DUPLICATE",
          taskQueue: backgroundQueue(deployment),
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
};

const CHECK_TIMES_INTERVAL_MS = 60 * 1000;

/** Looks for deliveries from before the clock was set back, and makes them due. */
const createCheckDeliveryTimes = ({ db, clock }: DispatchContext): Pass => {
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() - checkedAtMs >= CHECK_TIMES_INTERVAL_MS) {
      await makeFutureDeliveriesDue(db, clock.now());
      checkedAtMs = performance.now();
    }
  };
};

/** Ends a part of what is pending at disabled endpoints: more than ends with the disabling, or what was recorded meanwhile. */
const createEndDeliveries = ({ db }: DispatchContext): Pass => {
  const pace = createScanPace();
  return async () => {
    if (pace.isDue()) {
      await pace.scan(() => failPendingDeliveries(db, null));
    }
  };
};

/** Each creates what a leader does in a pass. */
export const PASSES: readonly ((context: DispatchContext) => Pass)[] = [
  createStartRefunds,
  createStartShardSenders,
  createWakeSenders,
  createStartProcessorEvents,
  createStartSweepOfHold,
  createCheckDeliveryTimes,
  createEndDeliveries,
];
