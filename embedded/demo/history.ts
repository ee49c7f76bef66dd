import type { DatabasePool } from "slonik";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import { DEMO_STEP_SECONDS } from "./demoSettings.ts";

export const DAYS = 365;

/** EINs of the starter catalogue: The Nature Conservancy, Oceana, Ocean Conservancy, World Central Kitchen. */
export const CHARITIES = ["530242652", "510401308", "237245152", "273521132"];

/** Returns the simulated partner, which takes as long as real planting. */
const createDemoPlanting = () =>
  createPlanting({
    PLANTING_PARTNER: "simulated",
    PLANTING_TIMELINE: "allocations",
    SIMULATED_PLANTING_SECONDS: DEMO_STEP_SECONDS,
    TREEMAPPER_API_BASE: "",
  });

/** The past year, which is planned before it is written. */
export type History = {
  readonly db: DatabasePool;
  readonly clock: { readonly now: () => Date };
  /** Does some work at a time of the year, unless that is in the future. */
  readonly plan: (at: Date, work: () => Promise<unknown>) => void;
};

/** Returns what the services need. */
export const createContext = ({ db, clock }: History) => ({
  db,
  clock,
  actor: SERVICE,
  // Never Stripe, whatever is configured.
  billing: createBilling({ db, stripe: null }),
  planting: createDemoPlanting(),
  charities: createCharities({
    db,
    clock,
    settings: { everyorg: null, change: null, pledge: null },
  }),
  validateCharity: () =>
    Promise.reject(new Error("The charities of the demo are in the built-in catalogue.")),
});
