import type { DestinationStream } from "pino";

/** What the lines are written to, such as pino's own destination. */
type Destination = {
  readonly write: (text: string) => unknown;
  readonly flush: (callback?: (error?: Error) => void) => void;
  readonly flushSync: () => void;
};

/** One write of the destination; a loop that is blocked would collect more. */
const MAXIMUM_LENGTH = 8192;

/**
 * Collects the lines of one iteration of the event loop and passes them on together, because the destination measures all
 * that it holds with every write. Lines that are not passed on when the process exits are written then.
 */
export const batchLines = (destination: Destination): DestinationStream & Destination => {
  let lines = "";
  const passOn = (): void => {
    if (lines !== "") {
      const text = lines;
      lines = "";
      destination.write(text);
    }
  };
  const flushSync = (): void => {
    passOn();
    destination.flushSync();
  };
  process.once("exit", flushSync);
  return {
    write: (line) => {
      if (lines === "") {
        setImmediate(passOn);
      }
      lines += line;
      if (lines.length >= MAXIMUM_LENGTH) {
        passOn();
      }
    },
    flush: (callback) => {
      passOn();
      destination.flush(callback);
    },
    flushSync,
  };
};
