import type { Command } from "commander";
import { Option } from "commander";
import { parseId, parseLimit, parseReason } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { operatorOption } from "../../operator.ts";
import { STATUSES } from "./listingQuery.ts";
import { listWorkflows } from "./listWorkflows.ts";
import type { ListOptions } from "./listWorkflows.ts";
import { showWorkflow } from "./showWorkflow.ts";
import type { ShowOptions } from "./showWorkflow.ts";
import { terminateWorkflow } from "./terminateWorkflow.ts";
import type { TerminateOptions } from "./terminateWorkflow.ts";

const TERMINATE_HELP = `
The data stay in the database. The sender of a shard is started again within seconds,
that of a stream in trouble within a minute, and a planting order when
plantingOrderCreation finds it lost. A refund's workflow is not started again; its usage
is reported nevertheless.`;

export const addWorkflowCommands = (workflow: Command, context: CliContext): void => {
  workflow
    .command("list")
    .description(
      "List this deployment's workflows: running ones first, then the latest closed ones",
    )
    .option("--type <type>", "workflow type, such as usageShard, usageSender or refund")
    .addOption(new Option("--status <status>", "status of the workflows").choices(STATUSES))
    .option(
      "--org <id>",
      "id of the organization; lists only the senders of its streams in trouble",
      parseId,
    )
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((options: ListOptions) => listWorkflows(context, options));
  workflow
    .command("show")
    .description("Show the state, pending activities and result of a workflow")
    .argument(
      "<workflow-id>",
      "workflow id, such as a registration's refund_id, or reconciliation for the latest",
    )
    .option("--run <run-id>", "id of the run (default: the latest)", parseId)
    .action((id: string, options: ShowOptions) => showWorkflow(context, id, options));
  workflow
    .command("terminate")
    .description("Stop a running workflow immediately, without cleanup")
    .argument("<workflow-id>", "workflow id, with or without the deployment's name")
    .requiredOption("--reason <text>", "reason, recorded in the workflow's history", parseReason)
    .option("--run <run-id>", "id of the run (default: the latest)", parseId)
    .addOption(operatorOption())
    .addHelpText("after", TERMINATE_HELP)
    .action((id: string, options: TerminateOptions) => terminateWorkflow(context, id, options));
};
