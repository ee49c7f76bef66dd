import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/serverStatus.ts";
import { within } from "../../domain/within.ts";
import { callTemporalWithin } from "../../program/callTemporalWithin.ts";
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
  database: () => within(AbortSignal.timeout(PATIENCE_MS), readServerStatus(db)),
  temporal: () =>
    callTemporalWithin(temporal, PATIENCE_MS, () =>
      temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
    ),
});
