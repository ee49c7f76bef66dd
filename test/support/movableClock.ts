import type { Clock } from "../../domain/clock.ts";

/** A clock that stands still until it is set. */
export const createMovableClock = (start: string): Clock & { set: (instant: string) => void } => {
  let present = new Date(start);
  return {
    now: () => present,
    set: (instant) => {
      present = new Date(instant);
    },
  };
};
