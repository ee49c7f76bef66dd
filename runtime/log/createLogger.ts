import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { pino } from "pino";
import type { DestinationStream, Logger } from "pino";
import { build as buildPretty } from "pino-pretty";
import type { Config } from "../config/config.ts";
import { writeLines } from "./writeLines.ts";

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

const STDOUT = 1;
const STDERR = 2;

/** The log cannot say that it cannot be written. Nor may stderr be writable, if it is on the same disk. */
const reportOnStderr = (message: string): void => {
  try {
    writeSync(STDERR, `${message}\n`);
  } catch {
    // Serving requests matters more.
  }
};

/**
 * Opens stdout for `writeLines`, which requires that a pipe is non-blocking. Whether it is belongs to everything that shares
 * what stdout refers to, and another process may change it: each Node process that starts or exits does. So a pipe is
 * opened again for this process alone, where the system has a path for it.
 */
const openStdout = (): number => {
  try {
    if (fstatSync(STDOUT).isFIFO()) {
      return openSync(`/proc/self/fd/${STDOUT}`, constants.O_WRONLY | constants.O_NONBLOCK);
    }
  } catch {
    // Another system, or a pipe of another user.
  }
  return STDOUT;
};

const openDestination = (
  format: "json" | "pretty",
  onLost: (lines: number) => void,
): DestinationStream =>
  format === "pretty"
    ? buildPretty({ sync: true, ignore: "pid,hostname", translateTime: "HH:MM:ss.l" })
    : writeLines(openStdout(), { report: reportOnStderr, onLost });

/**
 * Creates the logger of a process: JSON on stdout, or readable lines if stdout is a terminal.
 * @param readFields returns what each line has besides
 */
export const createLogger = (
  { LOG_LEVEL, LOG_FORMAT }: Pick<Config, "LOG_LEVEL" | "LOG_FORMAT">,
  program: string,
  readFields?: () => Readonly<Record<string, string>>,
): Logger => {
  // Where stdout is not opened again, opening process.stdout makes it non-blocking.
  const automatic = process.stdout.isTTY ? "pretty" : "json";
  const logger: Logger = pino(
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
    openDestination(LOG_FORMAT === "auto" ? automatic : LOG_FORMAT, (lines) => {
      logger.error({ lines }, "log lines were lost");
    }),
  );
  return logger;
};
