import type { Logger } from "pino";

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
