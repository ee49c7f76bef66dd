import { usageSenderPrefix } from "../../../workflows/usageSender.ts";

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

const quote = (value: string): string =>
  `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/** Returns the visibility query of a filter; an empty query matches every workflow. */
export const listingQuery = ({ type, status, org }: WorkflowFilter): string =>
  [
    ...(type === undefined ? [] : [`WorkflowType = ${quote(type)}`]),
    ...(status === undefined ? [] : [`ExecutionStatus = ${quote(STATUS_NAMES[status] ?? status)}`]),
    ...(org === undefined ? [] : [`WorkflowId STARTS_WITH ${quote(usageSenderPrefix(org))}`]),
  ].join(" AND ");
