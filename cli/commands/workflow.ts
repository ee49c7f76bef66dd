import { WorkflowContinuedAsNewError, WorkflowFailedError } from "@temporalio/client";
import type {
  Client,
  WorkflowExecutionDescription,
  WorkflowExecutionInfo,
} from "@temporalio/client";
import { Option } from "@commander-js/extra-typings";
import { inDeployment } from "../../runtime/temporalNames.rules.ts";
import { parseLimit } from "../arguments.ts";
import { callTemporal } from "../callTemporal.ts";
import type { Cli, Define } from "../command.ts";
import { describeError } from "../exitCodes.ts";
import { only } from "../output/print.ts";

/** Returns a workflow's id in Temporal. The documentation, the API and logs have ids without the deployment's name. */
const workflowIdOf = (deployment: string, given: string): string =>
  given.includes("/") ? given : inDeployment(deployment, given);

const quote = (value: string): string =>
  `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

const STATUSES = [
  "running",
  "completed",
  "failed",
  "canceled",
  "terminated",
  "continued-as-new",
  "timed-out",
] as const;

/** Returns Temporal's name of a status in visibility queries, such as ContinuedAsNew. */
const nameOfStatus = (status: (typeof STATUSES)[number]): string =>
  status.replaceAll(/(?:^|-)\w/gu, (start) => start.slice(-1).toUpperCase());

const presentWorkflow = (workflow: Omit<WorkflowExecutionInfo, "raw">) => ({
  workflow_id: workflow.workflowId,
  run_id: workflow.runId,
  type: workflow.type,
  status: workflow.status.name.toLowerCase().replaceAll("_", "-"),
  task_queue: workflow.taskQueue,
  started_at: workflow.startTime,
  closed_at: workflow.closeTime ?? null,
});

type ListOptions = {
  readonly type?: string;
  readonly status?: (typeof STATUSES)[number];
  readonly limit: number;
};

const listAll = async ({ connections, printList }: Cli, { type, status, limit }: ListOptions) => {
  const deployment = await connections.deploymentName();
  const temporal = await connections.temporal();
  const query = [
    `WorkflowId STARTS_WITH ${quote(inDeployment(deployment, ""))}`,
    ...(type === undefined ? [] : [`WorkflowType = ${quote(type)}`]),
    // The perpetual workflows continue as new every few minutes.
    status === undefined
      ? "ExecutionStatus != 'ContinuedAsNew'"
      : `ExecutionStatus = ${quote(nameOfStatus(status))}`,
  ].join(" AND ");
  const found: WorkflowExecutionInfo[] = [];
  await callTemporal(temporal, async () => {
    const pageSize = Math.min(limit + 1, 1000);
    for await (const workflow of temporal.workflow.list({ query, pageSize })) {
      found.push(workflow);
      if (found.length > limit) {
        break;
      }
    }
  });
  const rows = found.map(presentWorkflow);
  printList(rows, only(rows, ["workflow_id", "type", "status", "started_at", "closed_at"]), limit);
};

/** Returns how a closed run ended; neither for a run that is running or has continued as new. */
const readOutcome = async (
  temporal: Client,
  { workflowId, runId, status }: WorkflowExecutionDescription,
): Promise<{ readonly result: unknown; readonly failure: string | null }> => {
  const open = { result: null, failure: null };
  if (status.name === "RUNNING" || status.name === "CONTINUED_AS_NEW") {
    return open;
  }
  const handle = temporal.workflow.getHandle(workflowId, runId, { followRuns: false });
  try {
    const result: unknown = await callTemporal(temporal, () => handle.result());
    return { result: result ?? null, failure: null };
  } catch (error) {
    if (error instanceof WorkflowContinuedAsNewError) {
      return open;
    }
    if (error instanceof WorkflowFailedError) {
      return { result: null, failure: describeError(error) };
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

const showOne = async ({ connections, printDetails }: Cli, given: string): Promise<void> => {
  const deployment = await connections.deploymentName();
  const temporal = await connections.temporal();
  const description = await callTemporal(temporal, () =>
    temporal.workflow.getHandle(workflowIdOf(deployment, given)).describe(),
  );
  printDetails({
    ...presentWorkflow(description),
    // Of lists, Temporal returns 0 for workflows that run.
    history_length: description.historyLength,
    pending_activities: presentPending(description),
    ...(await readOutcome(temporal, description)),
  });
};

export const addWorkflowCommands: Define = (workflow, cli) => {
  workflow
    .command("list")
    .alias("show")
    .description(
      "List this deployment's workflows, running ones first, or show one with its pending activities and its result",
    )
    .argument("[workflow-id]", "workflow id, such as a registration's refund_id")
    .option("--type <type>", "workflow type, such as perpetualWork, reconciliation or refund")
    .addOption(new Option("--status <status>", "status of the workflows").choices(STATUSES))
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((id, options: ListOptions) =>
      id === undefined ? listAll(cli, options) : showOne(cli, id),
    );
};
