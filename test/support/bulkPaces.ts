import type { BulkPace } from "../../db/createBulkPace.ts";

/** A pace that always yields, without waiting, and counts its steps. */
export const createYieldingPace = (): BulkPace & { readonly stepCount: () => number } => {
  let steps = 0;
  return {
    run: (step) => {
      steps += 1;
      return step();
    },
    runEach: (items) => items,
    isYielding: () => true,
    stepCount: () => steps,
  };
};
