import type { Io } from "../io.ts";

const WIDTH = 24;
/** Often enough to look alive, seldom enough to cost nothing. */
const REDRAW_MS = 100;

export type ProgressBar = {
  /**
   * @param done the share that is done, from 0 to 1; null when nobody knows how much there is
   * @param label what to say beside the bar
   */
  readonly update: (done: number | null, label: string) => void;
  /** Takes the bar away, so that words can be said in its place. */
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

/** A line at the bottom of the terminal that tells how far the work has come; silent where stderr is no terminal. */
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
        stderr.write(`\r\u001B[K${draw(done, label)}`);
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
