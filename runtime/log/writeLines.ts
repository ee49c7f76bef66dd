import { writeSync } from "node:fs";
import type { DestinationStream } from "pino";
import { counted } from "../counted.rules.ts";

/** One write; fewer lines wait for the next interval. */
const CHUNK_LENGTH = 8192;
const INTERVAL_MS = 100;

/** What is held while nothing can be written. Later lines are lost. */
const MAXIMUM_HELD_BYTES = 16 * 1024 * 1024;

/** How long a process that exits waits for a reader that is slow. */
const MAXIMUM_WAIT_MS = 2000;
const WAIT_MS = 10;

/**
 * Writes until the reader has everything, or has been slow for too long. The process does nothing else meanwhile.
 * @param write returns whether the reader is slow
 */
const writeToSlowReader = (write: () => boolean): void => {
  const giveUpAtMs = performance.now() + MAXIMUM_WAIT_MS;
  const neverChanged = new Int32Array(new SharedArrayBuffer(4));
  while (write() && performance.now() < giveUpAtMs) {
    Atomics.wait(neverChanged, 0, 0, WAIT_MS);
  }
};

const countLines = (text: string): number => text.split("\n").length - 1;

/**
 * Creates a destination of log lines that lets its process continue if the disk is full or the pipe is not read: lines are
 * then held up to a limit and written later. Writes are synchronous, so that the order is kept and it is always known what
 * is written. They do not wait for a reader, because a pipe must be non-blocking; they wait for a disk that does not respond.
 *
 * An exit waits for a slow reader, and then reports how many lines it loses. A process that is killed loses what is held.
 * @param report called with the first error of those that follow each other, and with what an exit loses
 * @param onLost called with the number of lines that were lost, after all that was held is written
 */
export const writeLines = (
  fd: number,
  {
    report,
    onLost,
  }: {
    readonly report: (message: string) => void;
    readonly onLost: (lines: number) => void;
  },
): DestinationStream & { readonly flushSync: () => void } => {
  let lines = "";
  const held: Buffer[] = [];
  let heldBytes = 0;
  let lost = 0;
  let isFailing = false;

  const holdLines = (): void => {
    const chunk = Buffer.from(lines);
    if (heldBytes + chunk.length > MAXIMUM_HELD_BYTES) {
      lost += countLines(lines);
    } else if (chunk.length > 0) {
      held.push(chunk);
      heldBytes += chunk.length;
    }
    lines = "";
  };

  const writeHeld = (): void => {
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
  };

  /** Returns whether the reader is slow. After other errors, only the next interval tries again. */
  const writeAll = (): boolean => {
    holdLines();
    try {
      writeHeld();
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EAGAIN") {
        return true;
      }
      if (!isFailing) {
        isFailing = true;
        const reason = error instanceof Error ? error.message : String(error);
        report(`The log cannot be written: ${reason}`);
      }
      return false;
    }
    if (lost === 0) {
      return false;
    }
    const count = lost;
    lost = 0;
    onLost(count);
    return writeAll();
  };

  setInterval(writeAll, INTERVAL_MS).unref();
  process.once("exit", () => {
    writeToSlowReader(writeAll);
    const count = lost + countLines(Buffer.concat(held).toString());
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
    },
    // A fatal line does not wait for a slow reader; only the exit does.
    flushSync: writeAll,
  };
};
