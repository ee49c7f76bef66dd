import type { WorkflowExecutionInfo } from "@temporalio/client";

/** Returns a status as the command line names it. */
export const formatStatus = ({ status }: Pick<WorkflowExecutionInfo, "status">): string =>
  status.name.toLowerCase().replaceAll("_", "-");

export const presentWorkflow = (workflow: Omit<WorkflowExecutionInfo, "raw">) => ({
  workflow_id: workflow.workflowId,
  run_id: workflow.runId,
  type: workflow.type,
  status: formatStatus(workflow),
  task_queue: workflow.taskQueue,
  started_at: workflow.startTime,
  closed_at: workflow.closeTime ?? null,
});
