import type { Clock } from "../../runtime/clock.ts";
import type { DatabasePool } from "slonik";
import { createCharities } from "../../modules/charities/createCharities.ts";
import type { CharityContext } from "../../modules/charities/context.ts";

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

/** Only a remote provider's charities are validated. */
const validateCharity = (): Promise<never> =>
  Promise.reject(new Error("The charities of the demo are in the built-in catalogue."));

/** Returns the built-in catalogue, whatever providers are configured. */
export const createDemoCharities = (
  db: DatabasePool,
  clock: Clock,
): Pick<CharityContext, "charities" | "validateCharity"> => ({
  charities: createCharities({
    db,
    clock,
    settings: { everyorg: null, change: null, pledge: null },
  }),
  validateCharity,
});
