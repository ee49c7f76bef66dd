import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/serverStatus.ts";
import { withTimeout } from "../../domain/withTimeout.ts";
import { withTemporalDeadline } from "../../program/withTemporalDeadline.ts";
import type { HealthChecks } from "./healthEndpoints.ts";

/** Shorter than the patience of those who ask, so that they learn which part it is. */
const PATIENCE_MS = 2000;

/** Looks whether the database and Temporal answer, each within two seconds. */
export const createHealthChecks = ({
  db,
  temporal,
}: {
  readonly db: DatabasePool;
  readonly temporal: Client;
}): HealthChecks => ({
  database: () => withTimeout(AbortSignal.timeout(PATIENCE_MS), readServerStatus(db)),
  temporal: () =>
    withTemporalDeadline(temporal, PATIENCE_MS, () =>
      temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
    ),
});
