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

/**
 * Returns a function that logs errors of one cause, such as an account's usage that was rejected for one reason: the first
 * at once, and those that follow in one line a minute with their number. So a long outage does not fill the log.
 */
export const createRepeatedLog = (
  logger: Logger,
  message: string,
): ((cause: string, fields: object) => void) => {
  const repeated = new Map<string, { fields: object; count: number }>();
  const summarize = (cause: string): void => {
    const { fields, count } = repeated.get(cause) ?? { fields: {}, count: 0 };
    repeated.delete(cause);
    if (count > 0) {
      log(cause, { ...fields, count });
    }
  };
  const log = (cause: string, fields: object): void => {
    logger.error(fields, message);
    repeated.set(cause, { fields, count: 0 });
    setTimeout(() => summarize(cause), WARNING_INTERVAL_MS).unref();
  };
  return (cause, fields) => {
    const known = repeated.get(cause);
    if (known === undefined) {
      log(cause, fields);
    } else {
      known.fields = fields;
      known.count += 1;
    }
  };
};
