import { destination, pino } from "pino";
import type { DestinationStream, Logger } from "pino";
import { build as buildPretty } from "pino-pretty";
import type { Config } from "../../config/config.ts";
import { batchLines } from "./batchLines.ts";

/** The parts of an error that are logged. Other properties may contain keys or personal data. */
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
    : batchLines(destination({ sync: false, minLength: 8192, periodicFlush: 100 }));

/**
 * Creates the logger of a process: JSON on stdout, or readable lines if stdout is a terminal.
 * @param readFields returns what each line has besides
 */
export const createLogger = (
  { LOG_LEVEL, LOG_FORMAT }: Pick<Config, "LOG_LEVEL" | "LOG_FORMAT">,
  program: string,
  readFields?: () => Readonly<Record<string, string>>,
): Logger => {
  const automatic = process.stdout.isTTY ? "pretty" : "json";
  return pino(
    {
      level: LOG_LEVEL,
      base: { program, pid: process.pid },
      ...(readFields === undefined ? {} : { mixin: readFields }),
      serializers: {
        err: serializeError,
        // Temporal's SDK logs its errors under this name, and strings from its core.
        error: (given: unknown) => (given instanceof Error ? serializeError(given) : given),
      },
      // No code logs these; this is a second line of defense.
      redact: ["authorization", "headers.authorization", "apiKey", "key"],
    },
    openDestination(LOG_FORMAT === "auto" ? automatic : LOG_FORMAT),
  );
};
