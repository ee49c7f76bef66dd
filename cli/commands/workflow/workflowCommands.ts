import type {
  Client,
  WorkflowExecutionDescription,
  WorkflowExecutionInfo,
} from "@temporalio/client";
import { WorkflowContinuedAsNewError, WorkflowFailedError } from "@temporalio/client";
import type { Command } from "commander";
import { Option } from "commander";
import { parseId, parseLimit } from "../../arguments.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { Context } from "../../context.ts";
import { CommandError, describeError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { listingQuery, STATUSES } from "./listingQuery.ts";
import type { WorkflowFilter } from "./listingQuery.ts";

type ListOptions = WorkflowFilter & { readonly limit: number; readonly json?: true };

const presentWorkflow = (workflow: Omit<WorkflowExecutionInfo, "raw">) => ({
  workflow_id: workflow.workflowId,
  run_id: workflow.runId,
  type: workflow.type,
  status: workflow.status.name,
  task_queue: workflow.taskQueue,
  started_at: workflow.startTime,
  closed_at: workflow.closeTime ?? null,
  history_length: workflow.historyLength,
});

const list = async (
  { io, connections }: Context,
  { limit, json, ...filter }: ListOptions,
): Promise<void> => {
  const temporal = await connections.temporal();
  const found: WorkflowExecutionInfo[] = [];
  await callTemporal(temporal, async () => {
    const pages = temporal.workflow.list({
      query: listingQuery(filter),
      pageSize: Math.min(limit + 1, 1000),
    });
    for await (const workflow of pages) {
      found.push(workflow);
      if (found.length > limit) {
        break;
      }
    }
  });
  const shown = found.slice(0, limit);
  if (json) {
    printJson(io, shown.map(presentWorkflow));
  } else {
    printTable(
      io,
      ["workflow id", "type", "status", "started", "closed"],
      shown.map(({ workflowId, type, status, startTime, closeTime }) => [
        workflowId,
        type,
        status.name.toLowerCase(),
        startTime,
        closeTime,
      ]),
    );
  }
  if (found.length > limit) {
    say(io, `There are more than these ${limit}; --limit shows them.`);
  }
};

type Outcome = { readonly result: unknown } | { readonly failure: string } | null;

/** How a closed run ended; null while it runs, and for a run that another has taken over. */
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

const show = async (
  { io, connections }: Context,
  workflowId: string,
  { run, json }: { readonly run?: string; readonly json?: true },
): Promise<void> => {
  const temporal = await connections.temporal();
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
    status: description.status.name.toLowerCase(),
    "task queue": description.taskQueue,
    started: description.startTime,
    closed: description.closeTime,
    events: description.historyLength,
    ...(result === null ? {} : { result: JSON.stringify(result) }),
    ...(failure === null ? {} : { failure }),
  });
  if (pending.length > 0) {
    io.stdout.write("\n");
    printTable(
      io,
      ["pending activity", "attempt", "last started", "next attempt", "last failure"],
      pending.map((activity) => [
        activity.activity,
        activity.attempt,
        activity.last_started_at,
        activity.next_attempt_at,
        activity.last_failure,
      ]),
    );
  }
};

const terminate = async (
  { io, connections, clock }: Context,
  workflowId: string,
  { reason, run, json }: { readonly reason: string; readonly run?: string; readonly json?: true },
): Promise<void> => {
  if (reason.trim() === "") {
    throw new CommandError(EXIT.usage, "Give the reason: whoever finds the workflow must know.");
  }
  const temporal = await connections.temporal();
  await callTemporal(temporal, () =>
    temporal.workflow.getHandle(workflowId, run).terminate(reason),
  );
  if (json) {
    printJson(io, { workflow_id: workflowId, status: "TERMINATED", reason });
    return;
  }
  say(io, `${workflowId} was terminated at ${formatTime(clock.now())}.`);
};

const TERMINATE_HELP = `
What a workflow is for stays in the database: usage that waits starts another
sender within a minute. A refund's workflow is not started again by itself.`;

export const addWorkflowCommands = (program: Command, context: Context): void => {
  const workflow = program.command("workflow").description("workflows in Temporal");
  workflow
    .command("list")
    .description("list workflows: running ones first, then those closed last")
    .option("--type <type>", "only this type, such as usageSender or refund")
    .addOption(new Option("--status <status>", "only this status").choices(STATUSES))
    .option("--org <id>", "only the usage senders of this organization", parseId)
    .option("--limit <n>", "at most so many", parseLimit, 50)
    .option("--json", "print JSON")
    .action((options: ListOptions) => list(context, options));
  workflow
    .command("show")
    .description("show a workflow's state, what it is waiting for and how it ended")
    .argument("<workflow-id>", "its id, such as a registration's refund_id")
    .option("--run <run-id>", "a certain run; the latest by default")
    .option("--json", "print JSON")
    .action((id: string, options: { readonly run?: string; readonly json?: true }) =>
      show(context, id, options),
    );
  workflow
    .command("terminate")
    .description("end a running workflow at once, without letting it clean up")
    .argument("<workflow-id>", "its id")
    .requiredOption("--reason <text>", "kept in the workflow's history")
    .option("--run <run-id>", "a certain run; the latest by default")
    .option("--json", "print JSON")
    .addHelpText("after", TERMINATE_HELP)
    .action(
      (
        id: string,
        options: { readonly reason: string; readonly run?: string; readonly json?: true },
      ) => terminate(context, id, options),
    );
};
