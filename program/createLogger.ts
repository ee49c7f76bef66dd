import { destination, pino } from "pino";
import type { DestinationStream, Logger } from "pino";
import { build as buildPretty } from "pino-pretty";
import type { Config } from "../config/config.ts";

/** What a log may hold of an error: never its other properties, which may carry keys or personal data. */
type LoggedError = {
  readonly type: string;
  readonly message: string;
  readonly code?: unknown;
  readonly stack?: string;
  readonly cause?: LoggedError;
};

const serializeError = (error: unknown): LoggedError => {
  if (!(error instanceof Error)) {
    return { type: typeof error, message: String(error) };
  }
  const { name, message, stack, cause } = error;
  return {
    type: name,
    message,
    ...("code" in error ? { code: error.code } : {}),
    ...(stack === undefined ? {} : { stack }),
    ...(cause === undefined ? {} : { cause: serializeError(cause) }),
  };
};

const openDestination = (format: "json" | "pretty"): DestinationStream =>
  format === "pretty"
    ? buildPretty({ sync: true, ignore: "pid,hostname", translateTime: "HH:MM:ss.l" })
    : destination({ sync: false, minLength: 4096, periodicFlush: 100 });

/** The process's log on stdout: JSON, or for people when stdout is a terminal. */
export const createLogger = (
  { LOG_LEVEL, LOG_FORMAT }: Pick<Config, "LOG_LEVEL" | "LOG_FORMAT">,
  program: string,
): Logger => {
  const automatic = process.stdout.isTTY ? "pretty" : "json";
  return pino(
    {
      level: LOG_LEVEL,
      base: { program, pid: process.pid },
      serializers: {
        err: serializeError,
        // What Temporal's SDK calls it: an error from its own side, a text from its core.
        error: (given: unknown) => (given instanceof Error ? serializeError(given) : given),
      },
      // No code logs these; if some ever does, the key stays out.
      redact: ["authorization", "headers.authorization", "apiKey", "key"],
    },
    openDestination(LOG_FORMAT === "auto" ? automatic : LOG_FORMAT),
  );
};
