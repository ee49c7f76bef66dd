import type { Clock } from "../../runtime/clock.ts";

/** A clock that is moved through the past as history is written. */
export type HistoryClock = Clock & { readonly moveTo: (time: Date) => void };

export const createHistoryClock = (start: Date): HistoryClock => {
  let current = start;
  return {
    now: () => current,
    moveTo: (time) => {
      current = time;
    },
  };
};
