import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/serverStatus.ts";
import type { Clock } from "../../domain/clock.ts";
import { withTimeout } from "../../domain/withTimeout.ts";
import { withTemporalDeadline } from "../../program/temporalClient.ts";
import type { HealthChecks } from "./healthEndpoints.ts";

/** Shorter than the usual timeout of a probe, so that the response names the part that failed. */
const TIMEOUT_MS = 2000;

/** Registrations are billed at the API's second; billing periods end by the database's and the processor's clocks. */
const TOLERATED_SKEW_MS = 2000;

/**
 * Checks whether the database and Temporal respond, each within two seconds, and how far this machine's clock is off.
 */
export const createHealthChecks = ({
  db,
  temporal,
  clock,
  logger,
}: {
  readonly db: DatabasePool;
  readonly temporal: Client;
  readonly clock: Clock;
  readonly logger: Logger;
}): HealthChecks => ({
  database: async () => {
    const sentAtMs = clock.now().getTime();
    const startedAtMs = performance.now();
    const { now } = await withTimeout(AbortSignal.timeout(TIMEOUT_MS), readServerStatus(db));
    const tookMs = performance.now() - startedAtMs;
    const skewMs = now.getTime() - (sentAtMs + tookMs / 2);
    // The response may have taken any part of that time.
    const isClockRight = Math.abs(skewMs) <= TOLERATED_SKEW_MS + tookMs / 2;
    if (!isClockRight) {
      logger.error(
        { skewMs: Math.round(skewMs) },
        "this machine's clock differs from the database's by more than 2 s; not ready until NTP corrects it",
      );
    }
    return { isClockRight };
  },
  temporal: () =>
    withTemporalDeadline(temporal, TIMEOUT_MS, () =>
      temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
    ),
});
