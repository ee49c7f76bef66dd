import type { Client } from "@temporalio/client";
import { withTemporalDeadline } from "../runtime/temporalClient.ts";
import type { Logger } from "pino";

const TIMEOUT_MS = 4000;

/** Calls Temporal with the timeout of calls that the worker repeats if they fail. */
export const callTemporal = <Result>(
  temporal: Client,
  work: () => Promise<Result>,
): Promise<Result> => withTemporalDeadline(temporal, TIMEOUT_MS, work);

const WARNING_INTERVAL_MS = 60_000;

/** Returns a function that logs a recurring error: as a warning at most once a minute, otherwise for debugging. */
export const createOutageLog = (logger: Logger, message: string): ((error: unknown) => void) => {
  let lastWarningAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    const isWarningDue = performance.now() - lastWarningAtMs >= WARNING_INTERVAL_MS;
    if (isWarningDue) {
      lastWarningAtMs = performance.now();
    }
    logger[isWarningDue ? "warn" : "debug"]({ err: error }, message);
  };
};
