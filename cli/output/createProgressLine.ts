import type { Io } from "./print.ts";
import { escapeUnsafe } from "./printable.ts";

const REDRAW_MS = 100;

/** Creates a line on stderr that shows how far a command is; none if stderr is not a terminal. */
export const createProgressLine = ({ stderr }: Io) => {
  let drawnAtMs = -Infinity;
  return {
    update: (text: string): void => {
      const nowMs = performance.now();
      if (stderr.isTTY === true && nowMs - drawnAtMs >= REDRAW_MS) {
        drawnAtMs = nowMs;
        stderr.write(`\r\u001B[K${escapeUnsafe(text)}`);
      }
    },
    /** Removes the line, so that messages can be written. */
    clear: (): void => {
      if (drawnAtMs > -Infinity) {
        stderr.write("\r\u001B[K");
        drawnAtMs = -Infinity;
      }
    },
  };
};
