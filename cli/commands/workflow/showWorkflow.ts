import type { Client, WorkflowExecutionDescription } from "@temporalio/client";
import { WorkflowContinuedAsNewError, WorkflowFailedError } from "@temporalio/client";
import { callTemporal } from "../../callTemporal.ts";
import type { CliContext } from "../../context.ts";
import { describeError } from "../../exitCodes.ts";
import { printJson, printRecord, printRows } from "../../output/print.ts";
import { formatStatus, presentWorkflow } from "./presentWorkflow.ts";
import { latestScheduledId, workflowIdOf } from "./workflowIds.ts";

type Outcome = { readonly result: unknown } | { readonly failure: string } | null;

/** Returns how a closed run ended; null for a run that is running or has continued as new. */
const readOutcome = async (
  temporal: Client,
  { workflowId, runId, status }: WorkflowExecutionDescription,
): Promise<Outcome> => {
  if (status.name === "RUNNING" || status.name === "CONTINUED_AS_NEW") {
    return null;
  }
  const handle = temporal.workflow.getHandle(workflowId, runId, { followRuns: false });
  try {
    return { result: await callTemporal(temporal, () => handle.result()) };
  } catch (error) {
    if (error instanceof WorkflowContinuedAsNewError) {
      return null;
    }
    if (error instanceof WorkflowFailedError) {
      return { failure: describeError(error) };
    }
    throw error;
  }
};

const toDate = (timestamp: { readonly seconds?: unknown } | null | undefined): Date | null =>
  timestamp?.seconds === null || timestamp?.seconds === undefined
    ? null
    : new Date(Number(timestamp.seconds) * 1000);

const presentPending = ({ raw }: WorkflowExecutionDescription) =>
  (raw.pendingActivities ?? []).map((activity) => ({
    activity: activity.activityType?.name ?? "unknown",
    attempt: activity.attempt ?? 0,
    last_started_at: toDate(activity.lastStartedTime),
    next_attempt_at: toDate(activity.nextAttemptScheduleTime),
    last_failure: activity.lastFailure?.message ?? null,
  }));

export type ShowOptions = { readonly run?: string; readonly json?: true };

export const showWorkflow = async (
  { io, connections }: CliContext,
  given: string,
  { run, json }: ShowOptions,
): Promise<void> => {
  const deployment = await connections.deploymentName();
  const temporal = await connections.temporal();
  const workflowId = await latestScheduledId(temporal, deployment, workflowIdOf(deployment, given));
  const description = await callTemporal(temporal, () =>
    temporal.workflow.getHandle(workflowId, run).describe(),
  );
  const pending = presentPending(description);
  const outcome = await readOutcome(temporal, description);
  const result = outcome && "result" in outcome ? (outcome.result ?? null) : null;
  const failure = outcome && "failure" in outcome ? outcome.failure : null;
  if (json) {
    printJson(io, {
      ...presentWorkflow(description),
      // Of lists, Temporal returns 0 for workflows that run.
      history_length: description.historyLength,
      pending_activities: pending,
      result,
      failure,
    });
    return;
  }
  printRecord(io, {
    "workflow id": description.workflowId,
    "run id": description.runId,
    type: description.type,
    status: formatStatus(description),
    "task queue": description.taskQueue,
    started: description.startTime,
    closed: description.closeTime,
    events: description.historyLength,
    ...(result === null ? {} : { result: JSON.stringify(result) }),
    ...(failure === null ? {} : { failure }),
  });
  if (pending.length > 0) {
    io.stdout.write("\n");
    printRows(io, pending, {
      "pending activity": (each) => each.activity,
      attempt: (each) => each.attempt,
      "last started": (each) => each.last_started_at,
      "next attempt": (each) => each.next_attempt_at,
      "last failure": (each) => each.last_failure,
    });
  }
};
