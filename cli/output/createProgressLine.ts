import type { Io } from "./print.ts";
import { escapeUnsafe } from "./printable.ts";

const REDRAW_MS = 100;

type ProgressLine = {
  readonly update: (text: string) => void;
  /** Removes the line, so that messages can be written. */
  readonly clear: () => void;
};

/** Creates a line on stderr that shows how far a command is; none if stderr is not a terminal. */
export const createProgressLine = ({ stderr }: Io): ProgressLine => {
  let drawnAtMs = -Infinity;
  return {
    update: (text) => {
      const nowMs = performance.now();
      if (stderr.isTTY === true && nowMs - drawnAtMs >= REDRAW_MS) {
        drawnAtMs = nowMs;
        stderr.write(`\r\u001B[K${escapeUnsafe(text)}`);
      }
    },
    clear: () => {
      if (drawnAtMs > -Infinity) {
        stderr.write("\r\u001B[K");
        drawnAtMs = -Infinity;
      }
    },
  };
};
