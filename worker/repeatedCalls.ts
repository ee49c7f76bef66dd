import type { Client } from "@temporalio/client";
import { LRUCache } from "lru-cache";
import { withTemporalDeadline } from "../runtime/temporalClient.ts";
import type { Logger } from "pino";

const TIMEOUT_MS = 4000;

/** Calls Temporal with the timeout of calls that the worker repeats if they fail. */
export const callTemporal = <Result>(temporal: Client, work: () => Promise<Result>) =>
  withTemporalDeadline(temporal, TIMEOUT_MS, work);

const LOG_INTERVAL_MS = 60_000;
const MAXIMUM_CAUSES = 10_000;

/**
 * Returns a function that logs a recurring message, for each cause at most once a minute, so a long outage does not fill the
 * log. Repetitions are logged for debugging.
 */
export const createRepeatedLog = (
  logger: Logger,
  level: "warn" | "error",
  message: string,
): ((fields: object, cause?: string) => void) => {
  const logged = new LRUCache<string, true>({ max: MAXIMUM_CAUSES, ttl: LOG_INTERVAL_MS });
  return (fields, cause = "") => {
    const isRepeated = logged.has(cause);
    if (!isRepeated) {
      logged.set(cause, true);
    }
    logger[isRepeated ? "debug" : level](fields, message);
  };
};

/** Returns a function that logs a recurring error as a warning. */
export const createOutageLog = (logger: Logger, message: string): ((error: unknown) => void) => {
  const log = createRepeatedLog(logger, "warn", message);
  return (error) => log({ err: error });
};
