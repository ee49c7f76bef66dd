import { inDeployment } from "../../../workflows/inDeployment.ts";
import { usageSenderPrefix } from "../../../workflows/workflowIds.ts";
import { quote } from "./workflowIds.ts";

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

export const STATUSES: readonly string[] = Object.keys(STATUS_NAMES);

export type WorkflowFilter = {
  readonly type?: string;
  readonly status?: string;
  readonly org?: string;
};

/** Returns the visibility query of a deployment's workflows that match a filter. */
export const listingQuery = (deployment: string, { type, status, org }: WorkflowFilter): string =>
  [
    `WorkflowId STARTS_WITH ${quote(org === undefined ? inDeployment(deployment, "") : usageSenderPrefix(deployment, org))}`,
    ...(type === undefined ? [] : [`WorkflowType = ${quote(type)}`]),
    ...(status === undefined ? [] : [`ExecutionStatus = ${quote(STATUS_NAMES[status] ?? status)}`]),
  ].join(" AND ");
