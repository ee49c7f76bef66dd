/** The double's time in whole unix seconds: the machine's own plus an offset, or a fixed time. */
export type Clock = {
  readonly now: () => number;
  readonly advance: (seconds: number) => void;
  /** Stops the clock at a unix second; `advance` still moves it. */
  readonly hold: (second: number) => void;
};

export const createClock = (): Clock => {
  let heldAt: number | null = null;
  let offset = 0;
  return {
    now: () => Math.floor((heldAt ?? Date.now() / 1000) + offset),
    advance: (seconds) => {
      offset += seconds;
    },
    hold: (second) => {
      heldAt = second;
      offset = 0;
    },
  };
};
