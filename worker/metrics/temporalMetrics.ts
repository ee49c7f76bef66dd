/**
 * The metrics of Temporal's SDK that an operator needs. It has a histogram for each operation and each type of workflow
 * and activity, hundreds of series in all, which nothing of ours reads.
 */
export const TEMPORAL_METRICS: readonly string[] = [
  "temporal_activity_execution_failed",
  "temporal_long_request_failure",
  "temporal_num_pollers",
  "temporal_request_failure",
  "temporal_worker_task_slots_available",
  "temporal_worker_task_slots_used",
  "temporal_workflow_task_execution_failed",
];

const KEPT: ReadonlySet<string> = new Set(TEMPORAL_METRICS);

/** The name in a line of Prometheus' text format: of a sample, or of a metric that a comment describes. */
const NAME = /^(?:# (?:HELP|TYPE) )?(?<name>\w+)/u;

/** Returns the lines of the metrics in Prometheus' text format that are kept. */
export const keepTemporalMetrics = (text: string): string =>
  text
    .split("\n")
    .filter((line) => KEPT.has(NAME.exec(line)?.groups?.["name"] ?? ""))
    .map((line) => `${line}\n`)
    .join("");
