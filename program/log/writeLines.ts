import { write, writeSync } from "node:fs";
import type { DestinationStream } from "pino";

/** One write; fewer lines wait for the next interval. */
const CHUNK_LENGTH = 8192;
const INTERVAL_MS = 100;

/** What is held while nothing can be written. Later lines are lost. */
const MAXIMUM_HELD_BYTES = 16 * 1024 * 1024;

/** How long a process that ends waits for a reader that is slow. */
const MAXIMUM_WAIT_MS = 2000;
const WAIT_MS = 10;

const isBusy = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "EAGAIN";

const waitSync = (): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS);
};

/**
 * Creates a destination of log lines that never stops its process, also if the disk is full or nobody reads the pipe: lines
 * are then held up to a limit and written later. Lines that are not written when the process exits are written then.
 * @param onError called with the first error of those that follow each other
 * @param onLost called with the number of lines that were lost, after all that was held is written
 */
export const writeLines = (
  fd: number,
  {
    onError,
    onLost,
  }: {
    readonly onError: (error: Error) => void;
    readonly onLost: (lines: number) => void;
  },
): DestinationStream & {
  readonly flush: (callback?: () => void) => void;
  readonly flushSync: () => void;
} => {
  let lines = "";
  const chunks: Buffer[] = [];
  let heldBytes = 0;
  let lost = 0;
  let isWriting = false;
  let isFailing = false;

  const addChunk = (): void => {
    if (lines === "") {
      return;
    }
    const chunk = Buffer.from(lines);
    if (heldBytes + chunk.length > MAXIMUM_HELD_BYTES) {
      lost += lines.split("\n").length - 1;
    } else {
      chunks.push(chunk);
      heldBytes += chunk.length;
    }
    lines = "";
  };

  /** Puts back what was not written of a chunk. */
  const putBack = (chunk: Buffer, written: number): void => {
    heldBytes -= written;
    if (written < chunk.length) {
      chunks.unshift(chunk.subarray(written));
    }
  };

  const writeNext = (): void => {
    const chunk = isWriting ? undefined : chunks.shift();
    if (chunk === undefined) {
      return;
    }
    isWriting = true;
    write(fd, chunk, (error, written) => {
      isWriting = false;
      putBack(chunk, error === null ? written : 0);
      if (error !== null) {
        // The next interval tries again.
        if (!isFailing && !isBusy(error)) {
          isFailing = true;
          onError(error);
        }
        return;
      }
      isFailing = false;
      if (chunks.length > 0) {
        writeNext();
      } else if (lost > 0) {
        const count = lost;
        lost = 0;
        onLost(count);
      }
    });
  };

  const flushSync = (): void => {
    addChunk();
    const giveUpAtMs = performance.now() + MAXIMUM_WAIT_MS;
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
      try {
        putBack(chunk, writeSync(fd, chunk));
      } catch (error) {
        putBack(chunk, 0);
        if (!isBusy(error) || performance.now() > giveUpAtMs) {
          return;
        }
        waitSync();
      }
    }
  };

  const writeAll = (): void => {
    addChunk();
    writeNext();
  };
  setInterval(writeAll, INTERVAL_MS).unref();
  process.once("exit", flushSync);
  return {
    write: (line) => {
      lines += line;
      if (lines.length >= CHUNK_LENGTH) {
        writeAll();
      }
    },
    flush: (callback) => {
      flushSync();
      callback?.();
    },
    flushSync,
  };
};
