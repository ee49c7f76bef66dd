/** Time as the double sees it: the machine's own plus what was added, or held still. */
export type Clock = {
  readonly nowMs: () => number;
  /** Whole unix seconds. */
  readonly now: () => number;
  readonly advance: (seconds: number) => void;
  /** Holds the clock at an instant in unix seconds; `advance` still moves it. */
  readonly hold: (second: number) => void;
};

export const createClock = (): Clock => {
  let heldAtMs: number | null = null;
  let aheadMs = 0;
  const nowMs = (): number => (heldAtMs ?? Date.now()) + aheadMs;
  return {
    nowMs,
    now: () => Math.floor(nowMs() / 1000),
    advance: (seconds) => {
      aheadMs += seconds * 1000;
    },
    hold: (second) => {
      heldAtMs = second * 1000;
      aheadMs = 0;
    },
  };
};
