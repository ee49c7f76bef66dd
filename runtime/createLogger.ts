import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { pino } from "pino";
import type { DestinationStream, Logger } from "pino";
import { prettyFactory } from "pino-pretty";
import { z } from "zod";
import type { Config } from "./config/config.ts";
import { counted } from "./counted.rules.ts";
import { errorDetails } from "./errors.rules.ts";

/** One write; fewer lines wait for the interval. */
const CHUNK_LENGTH = 8192;
const INTERVAL_MS = 100;

/** What is held while nothing can be written. Later lines are lost. */
const MAXIMUM_HELD_BYTES = 16 * 1024 * 1024;

/** How long a process that exits waits for a reader that is slow. */
const MAXIMUM_WAIT_MS = 2000;
const WAIT_MS = 10;

const countLines = (text: string): number => text.split("\n").length - 1;

type Report = (message: string) => void;

/** Creates what holds lines until they are written. A write returns whether the reader is slow. */
const createHeldLines = (fd: number, report: Report) => {
  const held: Buffer[] = [];
  let heldBytes = 0;
  let lost = 0;
  let isFailing = false;
  return {
    hold: (lines: string): void => {
      const chunk = Buffer.from(lines);
      if (heldBytes + chunk.length > MAXIMUM_HELD_BYTES) {
        lost += countLines(lines);
      } else if (chunk.length > 0) {
        held.push(chunk);
        heldBytes += chunk.length;
      }
    },
    write: (): boolean => {
      try {
        for (let [chunk] = held; chunk !== undefined; [chunk] = held) {
          const written = writeSync(fd, chunk);
          isFailing = false;
          heldBytes -= written;
          if (written < chunk.length) {
            held[0] = chunk.subarray(written);
          } else {
            held.shift();
          }
        }
        return false;
      } catch (error) {
        const { code, message } = errorDetails(error);
        if (code !== "EAGAIN" && !isFailing) {
          isFailing = true;
          report(`The log cannot be written: ${message}`);
        }
        return code === "EAGAIN";
      }
    },
    isEmpty: (): boolean => held.length === 0,
    /** Returns how many lines were lost since the last call. */
    takeLost: (): number => {
      const count = lost;
      lost = 0;
      return count;
    },
    count: (): number => countLines(Buffer.concat(held).toString()),
  };
};

/**
 * Creates a destination of log lines that lets its process continue if the disk is full or the pipe is not read: lines are
 * then held up to a limit and written later. Writes are synchronous, so that the order is kept and it is always known what
 * is written. They do not wait for a reader, because a pipe must be non-blocking; they wait for a disk that does not respond.
 *
 * An exit waits for a slow reader, and then reports how many lines it loses. A process that is killed loses what is held.
 * pino's own destination waits without end if the disk is full when the process exits.
 * @param report called with the first error of those that follow each other, and with what an exit loses
 * @param onLost called with the number of lines that were lost, after all that was held is written
 */
const writeLines = (
  fd: number,
  { report, onLost }: { readonly report: Report; readonly onLost: (lines: number) => void },
): DestinationStream & { readonly flushSync: () => void } => {
  const held = createHeldLines(fd, report);
  let lines = "";
  let timer: NodeJS.Timeout | null = null;
  const writeAll = (): boolean => {
    held.hold(lines);
    lines = "";
    const isSlow = held.write();
    const lost = held.isEmpty() ? held.takeLost() : 0;
    if (lost === 0) {
      return isSlow;
    }
    onLost(lost);
    return writeAll();
  };
  const writeLater = (): void => {
    timer ??= setTimeout(() => {
      timer = null;
      writeAll();
      if (!held.isEmpty()) {
        writeLater();
      }
    }, INTERVAL_MS).unref();
  };
  process.once("exit", () => {
    const giveUpAtMs = performance.now() + MAXIMUM_WAIT_MS;
    const neverChanged = new Int32Array(new SharedArrayBuffer(4));
    while (writeAll() && performance.now() < giveUpAtMs) {
      Atomics.wait(neverChanged, 0, 0, WAIT_MS);
    }
    const count = held.takeLost() + held.count();
    if (count > 0) {
      report(`The log has lost ${counted(count, "line")}.`);
    }
  });
  return {
    write: (line) => {
      lines += line;
      if (lines.length >= CHUNK_LENGTH) {
        writeAll();
      }
      writeLater();
    },
    // A fatal line does not wait for a slow reader; only the exit does.
    flushSync: writeAll,
  };
};

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

const requestLine = z.object({
  level: z.int(),
  time: z.int(),
  msg: z.literal("request"),
  method: z.string(),
  route: z.string(),
  status: z.int(),
  durationMs: z.number(),
});

/** Returns a function that makes a line readable. That of a request has only what a person looks at. */
const createPrettifier = (): ((line: string) => string) => {
  const prettify = prettyFactory({
    colorize: process.stdout.isTTY,
    ignore: "pid,hostname",
    translateTime: "HH:MM:ss",
    singleLine: true,
  });
  return (line) => {
    const { data } = requestLine.safeParse(JSON.parse(line));
    if (data === undefined) {
      return prettify(line);
    }
    const { level, time, method, route, status, durationMs } = data;
    return prettify({ level, time, msg: `${method} ${route} ${status} ${durationMs} ms` });
  };
};

const openDestination = (
  format: "json" | "pretty",
  onLost: (lines: number) => void,
): DestinationStream => {
  const destination = writeLines(openStdout(), { report: reportOnStderr, onLost });
  if (format === "json") {
    return destination;
  }
  const prettify = createPrettifier();
  return { ...destination, write: (line) => destination.write(prettify(line)) };
};

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
