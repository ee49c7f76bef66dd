import type { WorkflowExecutionInfo } from "@temporalio/client";
import { callTemporal } from "../../callTemporal.ts";
import type { CliContext } from "../../context.ts";
import { printList } from "../../output/print.ts";
import { sayIfMore } from "../../output/sayIfMore.ts";
import { listingQuery } from "./listingQuery.ts";
import type { WorkflowFilter } from "./listingQuery.ts";
import { formatStatus, presentWorkflow } from "./presentWorkflow.ts";

export type ListOptions = WorkflowFilter & { readonly limit: number; readonly json?: true };

export const listWorkflows = async (
  { io, connections }: CliContext,
  { limit, json, ...filter }: ListOptions,
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
  printList({ io, json }, found.slice(0, limit), presentWorkflow, {
    "workflow id": (workflow) => workflow.workflowId,
    type: (workflow) => workflow.type,
    status: formatStatus,
    started: (workflow) => workflow.startTime,
    closed: (workflow) => workflow.closeTime,
  });
  sayIfMore(io, found.length, limit);
};
