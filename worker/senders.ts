import type { Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import type { Owner } from "../modules/records/owner.rules.ts";
import {
  backgroundQueue,
  usageSenderWorkflowId,
  webhookQueue,
  usageShardWorkflowId,
  webhookShardWorkflowId,
} from "../runtime/temporalNames.rules.ts";
import { usageSender, wakeSignal } from "../workflows/usageSender.ts";
import type { ShardKind } from "../db/shards.rules.ts";
import { usageShard, webhookShard } from "../workflows/shards.ts";

/** Wakes a stream's own sender, or starts it. */
export const wakeSender = async (
  temporal: Client,
  deployment: string,
  { accountId, mode, kind }: Owner,
): Promise<void> => {
  const stream = { accountId, mode, kind };
  await temporal.workflow.signalWithStart(usageSender, {
    workflowId: usageSenderWorkflowId(deployment, stream),
    taskQueue: backgroundQueue(deployment),
    args: [stream],
    signal: wakeSignal,
  });
};

/** The longest activity of a sender; Temporal ends a longer one. */
const LONGEST_ACTIVITY_MS = 2 * 60 * 1000;

/**
 * What a sender does. `sending`: its activity has started recently. `delayed`: its activity is retried later. `idle`:
 * neither, so it continues as soon as a worker takes its next task.
 */
type SenderState = "sending" | "delayed" | "idle";

type PendingActivity = { readonly startedAtMs: number; readonly nextAttemptAtMs: number };

const stateOf = (activities: readonly PendingActivity[], nowMs: number): SenderState => {
  if (activities.some(({ nextAttemptAtMs }) => nextAttemptAtMs > nowMs)) {
    return "delayed";
  }
  return activities.some(({ startedAtMs }) => nowMs - startedAtMs < LONGEST_ACTIVITY_MS)
    ? "sending"
    : "idle";
};

type ProtoTime = { readonly seconds?: { toNumber: () => number } | null } | null | undefined;

const toMs = (time: ProtoTime): number => (time?.seconds?.toNumber() ?? 0) * 1000;

/** Returns the running sender with a workflow id, or null. */
export const findSender = async (
  temporal: Client,
  workflowId: string,
  now: Date,
): Promise<{ readonly runId: string; readonly state: SenderState } | null> => {
  try {
    const { status, runId, raw } = await temporal.workflow.getHandle(workflowId).describe();
    const activities = (raw.pendingActivities ?? []).map((activity) => ({
      startedAtMs: toMs(activity.lastStartedTime),
      nextAttemptAtMs: toMs(activity.nextAttemptScheduleTime),
    }));
    return status.name === "RUNNING" ? { runId, state: stateOf(activities, now.getTime()) } : null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return null;
    }
    throw error;
  }
};

/**
 * Terminates a run of a sender, so that another can be started. The leases of its events prevent two calls at the same
 * time, even if an activity of the terminated run still runs.
 */
export const terminateSender = async (
  temporal: Client,
  workflowId: string,
  { runId, reason }: { readonly runId: string; readonly reason: string },
): Promise<void> => {
  try {
    await temporal.workflow.getHandle(workflowId, runId).terminate(reason);
  } catch (error) {
    // It has just ended.
    if (!(error instanceof WorkflowNotFoundError)) {
      throw error;
    }
  }
};

/** The senders of shards: their workflow, its id, and its task queue. */
const SENDERS = {
  usage: { workflow: usageShard, idOf: usageShardWorkflowId, queueOf: backgroundQueue },
  webhooks: { workflow: webhookShard, idOf: webhookShardWorkflowId, queueOf: webhookQueue },
} as const satisfies Record<ShardKind, unknown>;

/** Returns the workflow id of a shard's sender. */
export const shardSenderId = (deployment: string, kind: ShardKind, shard: number): string =>
  SENDERS[kind].idOf(deployment, shard);

/** Starts the sender of a shard, unless it is running. */
export const startShardSender = async (
  temporal: Client,
  deployment: string,
  kind: ShardKind,
  shard: number,
): Promise<void> => {
  const { workflow, idOf, queueOf } = SENDERS[kind];
  await temporal.workflow.start(workflow, {
    workflowId: idOf(deployment, shard),
    workflowIdConflictPolicy: "USE_EXISTING",
    taskQueue: queueOf(deployment),
    args: [shard],
  });
};
