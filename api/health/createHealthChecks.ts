import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/serverStatus.ts";
import { withTimeout } from "../../domain/withTimeout.ts";
import { withTemporalDeadline } from "../../program/temporalClient.ts";
import type { HealthChecks } from "./healthEndpoints.ts";

/** Shorter than the usual timeout of a probe, so that the response names the part that failed. */
const TIMEOUT_MS = 2000;

/** Checks whether the database and Temporal respond, each within two seconds. */
export const createHealthChecks = ({
  db,
  temporal,
}: {
  readonly db: DatabasePool;
  readonly temporal: Client;
}): HealthChecks => ({
  database: () => withTimeout(AbortSignal.timeout(TIMEOUT_MS), readServerStatus(db)),
  temporal: () =>
    withTemporalDeadline(temporal, TIMEOUT_MS, () =>
      temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
    ),
});
