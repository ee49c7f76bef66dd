import { WorkflowContinuedAsNewError, WorkflowFailedError } from "@temporalio/client";
import type {
  Client,
  WorkflowExecutionDescription,
  WorkflowExecutionInfo,
} from "@temporalio/client";
import { Option } from "commander";
import type { Command } from "commander";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import {
  inDeployment,
  plantingOrderCreationId,
  reconciliationId,
  retentionId,
  subscriptionSweepId,
} from "../../runtime/temporalNames.rules.ts";
import { parseId, parseLimit, parseReason } from "../arguments.ts";
import { callTemporal } from "../callTemporal.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { say } from "../io.ts";
import { actorOf, operatorOption } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import { only, printDetails, printJson, printList, sayIfMore } from "../output/print.ts";

const NAMED = /^(?<deployment>[0-9a-f]{8})\//u;

/**
 * Returns a workflow's id in Temporal. The documentation, the API and logs have ids without the deployment's name.
 * @throws CommandError if the id is another deployment's
 */
const workflowIdOf = (deployment: string, given: string): string => {
  const other = NAMED.exec(given)?.groups?.["deployment"];
  if (other === undefined) {
    return inDeployment(deployment, given);
  }
  if (other !== deployment) {
    throw new CommandError(
      EXIT.notFound,
      `Workflow ${given} belongs to the deployment ${other}. This database's deployment is ${deployment}.`,
    );
  }
  return given;
};

/** What visibility queries take as text. */
const quote = (value: string): string =>
  `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/**
 * Returns the id of a schedule's latest workflow: Temporal adds the time to the ids of those that a schedule starts. Other
 * ids are returned as they are.
 * @throws CommandError if Temporal has no workflow of the schedule
 */
const latestScheduledId = async (
  temporal: Client,
  deployment: string,
  workflowId: string,
): Promise<string> => {
  const scheduled = [
    plantingOrderCreationId(deployment),
    reconciliationId(deployment),
    retentionId(deployment),
    subscriptionSweepId(deployment),
  ];
  if (!scheduled.includes(workflowId)) {
    return workflowId;
  }
  return callTemporal(temporal, async () => {
    const query = `WorkflowId STARTS_WITH ${quote(`${workflowId}-`)}`;
    for await (const latest of temporal.workflow.list({ query, pageSize: 1 })) {
      return latest.workflowId;
    }
    throw new CommandError(
      EXIT.notFound,
      `Temporal has no workflow ${workflowId}: its schedule has not started one yet, or Temporal has deleted it after its retention time. ` +
        "To check that a worker is running, use impact doctor.",
    );
  });
};

/** Returns a status as the command line names it. */
const formatStatus = ({ status }: Pick<WorkflowExecutionInfo, "status">): string =>
  status.name.toLowerCase().replaceAll("_", "-");

const presentWorkflow = (workflow: Omit<WorkflowExecutionInfo, "raw">) => ({
  workflow_id: workflow.workflowId,
  run_id: workflow.runId,
  type: workflow.type,
  status: formatStatus(workflow),
  task_queue: workflow.taskQueue,
  started_at: workflow.startTime,
  closed_at: workflow.closeTime ?? null,
});

/** Temporal's status names in visibility queries, by the names of the command line. */
const STATUS_NAMES: Readonly<Record<string, string>> = {
  running: "Running",
  completed: "Completed",
  failed: "Failed",
  canceled: "Canceled",
  terminated: "Terminated",
  "continued-as-new": "ContinuedAsNew",
  "timed-out": "TimedOut",
};

type WorkflowFilter = {
  readonly type?: string;
  readonly status?: string;
};

/** Returns the visibility query of a deployment's workflows that match a filter. */
const listingQuery = (deployment: string, { type, status }: WorkflowFilter): string =>
  [
    `WorkflowId STARTS_WITH ${quote(inDeployment(deployment, ""))}`,
    ...(type === undefined ? [] : [`WorkflowType = ${quote(type)}`]),
    ...(status === undefined ? [] : [`ExecutionStatus = ${quote(STATUS_NAMES[status] ?? status)}`]),
  ].join(" AND ");

type ListOptions = WorkflowFilter & { readonly limit: number };

type ShowOptions = { readonly run?: string };

const STATUSES: readonly string[] = Object.keys(STATUS_NAMES);

const listAll = async (
  { io, connections }: CliContext,
  { limit, ...filter }: ListOptions,
): Promise<void> => {
  const deployment = await connections.deploymentName();
  const temporal = await connections.temporal();
  const found: WorkflowExecutionInfo[] = [];
  await callTemporal(temporal, async () => {
    const pages = temporal.workflow.list({
      query: listingQuery(deployment, filter),
      pageSize: Math.min(limit + 1, 1000),
    });
    for await (const workflow of pages) {
      found.push(workflow);
      if (found.length > limit) {
        break;
      }
    }
  });
  const rows = found.slice(0, limit).map(presentWorkflow);
  const columns = ["workflow_id", "type", "status", "started_at", "closed_at"] as const;
  printList(io, rows, only(rows, columns));
  sayIfMore(io, found.length, limit);
};

/** Returns how a closed run ended; null for a run that is running or has continued as new. */
const readOutcome = async (
  temporal: Client,
  { workflowId, runId, status }: WorkflowExecutionDescription,
): Promise<{ readonly result: unknown } | { readonly failure: string } | null> => {
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

const showOne = async (
  { io, connections }: CliContext,
  given: string,
  { run }: ShowOptions,
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
  printDetails(io, {
    ...presentWorkflow(description),
    // Of lists, Temporal returns 0 for workflows that run.
    history_length: description.historyLength,
    pending_activities: pending,
    result,
    failure,
  });
};

type TerminateOptions = ReasonedOptions & {
  readonly run?: string;
};

const TERMINATE_HELP = `
The data stay in the database. The senders and the dispatcher are started again
within a minute, and a planting order when plantingOrderCreation finds it lost. A refund's workflow is not started again; its usage
is reported nevertheless.`;

const addTerminateCommand = (parent: Command, { io, connections, clock }: CliContext): void => {
  parent
    .command("terminate")
    .description("Stop a running workflow immediately, without cleanup")
    .argument("<workflow-id>", "workflow id, with or without the deployment's name")
    .requiredOption("--reason <text>", "reason, recorded in the workflow's history", parseReason)
    .option("--run <run-id>", "id of the run (default: the latest)", parseId)
    .addOption(operatorOption())
    .addHelpText("after", TERMINATE_HELP)
    .action(async (given: string, { reason, as, run }: TerminateOptions) => {
      const deployment = await connections.decidedDeploymentName();
      const temporal = await connections.temporal();
      const workflowId = await latestScheduledId(
        temporal,
        deployment,
        workflowIdOf(deployment, given),
      );
      const handle = temporal.workflow.getHandle(workflowId, run);
      const description = await callTemporal(temporal, () => handle.describe());
      if (description.status.name !== "RUNNING") {
        throw new CommandError(
          EXIT.notFound,
          `Workflow ${workflowId} is not running: its status is ${formatStatus(description)}.`,
        );
      }
      await recordAction(await connections.database(), actorOf({ as, reason }), clock.now(), {
        action: "workflow.terminate",
        subject: workflowId,
        details: { run },
      });
      await callTemporal(temporal, () => handle.terminate(reason));
      if (io.json) {
        printJson(io, { workflow_id: workflowId, status: "terminated", reason });
        return;
      }
      say(io, `Terminated ${workflowId} at ${formatTime(clock.now())}.`);
    });
};

export const addWorkflowCommands = (workflow: Command, context: CliContext): void => {
  workflow
    .command("list")
    .alias("show")
    .description(
      "List this deployment's workflows, running ones first, or show one with its pending activities and its result",
    )
    .argument(
      "[workflow-id]",
      "workflow id, such as a registration's refund_id, or reconciliation for the latest",
    )
    .option("--type <type>", "workflow type, such as perpetualWork or refund")
    .addOption(new Option("--status <status>", "status of the workflows").choices(STATUSES))
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .option("--run <run-id>", "id of the run of the workflow (default: the latest)", parseId)
    .action((id: string | undefined, options: ListOptions & ShowOptions) =>
      id === undefined ? listAll(context, options) : showOne(context, id, options),
    );
  addTerminateCommand(workflow, context);
};
