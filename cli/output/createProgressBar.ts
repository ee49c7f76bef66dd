import type { BulkPace } from "../../db/createBulkPace.ts";
import type { Io } from "../io.ts";
import { escapeUnsafe } from "./printable.ts";

const WIDTH = 24;
const REDRAW_MS = 100;

type ProgressBar = {
  /**
   * @param done the completed share, from 0 to 1; null if the total is unknown
   * @param label the text after the bar
   */
  readonly update: (done: number | null, label: string) => void;
  /** Removes the bar, so that messages can be written. */
  readonly clear: () => void;
};

const draw = (done: number | null, label: string): string => {
  if (done === null) {
    return label;
  }
  const filled = Math.round(Math.min(Math.max(done, 0), 1) * WIDTH);
  const percent = String(Math.floor(Math.min(done, 1) * 100)).padStart(3);
  return `[${"#".repeat(filled)}${".".repeat(WIDTH - filled)}] ${percent} %  ${label}`;
};

/** Creates a progress bar on stderr; it does nothing if stderr is not a terminal. */
export const createProgressBar = ({ stderr }: Io): ProgressBar => {
  if (stderr.isTTY !== true) {
    return { update: () => undefined, clear: () => undefined };
  }
  let drawnAtMs = -Infinity;
  return {
    update: (done, label) => {
      const nowMs = performance.now();
      if (nowMs - drawnAtMs >= REDRAW_MS) {
        drawnAtMs = nowMs;
        stderr.write(`\r\u001B[K${escapeUnsafe(draw(done, label))}`);
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

/** Returns what a progress bar adds while a command yields. */
export const yieldingNote = ({ isYielding }: Pick<BulkPace, "isYielding">): string =>
  isYielding() ? ", yielding to clients" : "";
