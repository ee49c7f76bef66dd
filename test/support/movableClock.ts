import type { Clock } from "../../runtime/clock.ts";

/** Creates a clock that shows a fixed time until it is set. */
export const createMovableClock = (start: string): Clock & { set: (time: string) => void } => {
  let current = new Date(start);
  return {
    now: () => current,
    set: (time) => {
      current = new Date(time);
    },
  };
};
