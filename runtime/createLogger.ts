import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { pino } from "pino";
import type { DestinationStream, Logger } from "pino";
import { prettyFactory } from "pino-pretty";
import type { Config } from "./config/config.ts";
import { activeSpanFields } from "./tracing.ts";

/** One write; fewer lines wait for the interval. */
const CHUNK_LENGTH = 8192;
const INTERVAL_MS = 100;

/** What is held while nothing can be written. Later lines are lost. */
const MAXIMUM_HELD_BYTES = 16 * 1024 * 1024;

/** How long a process that exits waits for a reader that is slow. */
const MAXIMUM_WAIT_MS = 2000;
const WAIT_MS = 10;

const STDOUT = 1;

/**
 * Returns stdout; a pipe is made non-blocking. All processes that share a pipe share that setting, and each Node process that
 * starts or exits changes it. So a pipe is opened again for this process alone, where the system has a path for it.
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

/**
 * Opens stdout for log lines, so that its process continues if the disk is full or the pipe is not read: lines are then held
 * up to a limit and written later. Writes are synchronous, so that the order is kept, and wait for no reader. An exit waits for
 * a slow one.
 */
const openLog = (): DestinationStream & { readonly flushSync: () => void } => {
  const stdout = openStdout();
  const held: Buffer[] = [];
  let heldBytes = 0;
  let lines = "";
  let timer: NodeJS.Timeout | null = null;
  const flushSync = (): void => {
    if (lines !== "" && heldBytes < MAXIMUM_HELD_BYTES) {
      const chunk = Buffer.from(lines);
      held.push(chunk);
      heldBytes += chunk.length;
    }
    lines = "";
    let written = 0;
    try {
      for (const [index, chunk] of held.entries()) {
        for (let rest = chunk; rest.length > 0; held[index] = rest) {
          const length = writeSync(stdout, rest);
          heldBytes -= length;
          rest = rest.subarray(length);
        }
        written += 1;
      }
    } catch {
      flushLater();
    }
    held.splice(0, written);
  };
  const flushLater = (): void => {
    timer ??= setTimeout(() => {
      timer = null;
      flushSync();
    }, INTERVAL_MS).unref();
  };
  process.once("exit", () => {
    const giveUpAtMs = performance.now() + MAXIMUM_WAIT_MS;
    const neverChanged = new Int32Array(new SharedArrayBuffer(4));
    flushSync();
    while (held.length > 0 && performance.now() < giveUpAtMs) {
      Atomics.wait(neverChanged, 0, 0, WAIT_MS);
      flushSync();
    }
  });
  return {
    write: (line) => {
      lines += line;
      if (lines.length >= CHUNK_LENGTH) {
        flushSync();
      }
      flushLater();
    },
    flushSync,
  };
};

/** Returns the parts of an error that are logged. Other properties may contain keys or personal data. */
const serializeError = (error: unknown): object => {
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

/** Returns a log of readable lines. That of a request has only what a person looks at. */
const makeReadable = (log: DestinationStream): DestinationStream => {
  const options = { colorize: process.stdout.isTTY, translateTime: "HH:MM:ss", singleLine: true };
  const prettify = prettyFactory({ ...options, ignore: "pid,hostname" });
  const prettifyRequest = prettyFactory({
    ...options,
    include: "level,time,reason",
    messageFormat: "{method} {route} {status} {durationMs} ms",
  });
  // The message comes last. Within a field, the same text is another's.
  const write = (line: string): void =>
    log.write((line.endsWith('"msg":"request"}\n') ? prettifyRequest : prettify)(line));
  return { ...log, write };
};

/** Creates the logger of a process: JSON on stdout, or readable lines if stdout is a terminal. */
export const createLogger = (
  { LOG_LEVEL, LOG_FORMAT }: Pick<Config, "LOG_LEVEL" | "LOG_FORMAT">,
  program: string,
): Logger => {
  // Where stdout is not opened again, opening process.stdout makes it non-blocking.
  const automatic = process.stdout.isTTY ? "pretty" : "json";
  const format = LOG_FORMAT === "auto" ? automatic : LOG_FORMAT;
  const log = openLog();
  return pino(
    {
      level: LOG_LEVEL,
      base: { program, pid: process.pid },
      mixin: activeSpanFields,
      serializers: {
        err: serializeError,
        // Temporal's SDK logs its errors under this name, and strings from its core.
        error: (given: unknown) => (given instanceof Error ? serializeError(given) : given),
      },
      // No code logs these; this is a second line of defense.
      redact: ["authorization", "headers.authorization", "apiKey", "key"],
    },
    format === "pretty" ? makeReadable(log) : log,
  );
};
