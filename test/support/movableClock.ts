import type { Clock } from "../../domain/clock.ts";

/** A clock that stands still until it is set. */
export const createMovableClock = (start: string): Clock & { set: (instant: string) => void } => {
  let current = new Date(start);
  return {
    now: () => current,
    set: (instant) => {
      current = new Date(instant);
    },
  };
};
