import { join } from "node:path";

const DAY_SECONDS = 24 * 60 * 60;

/** How long the simulated partner takes for each stage of the demo's trees, about as long as real planting. */
export const DEMO_STEP_SECONDS = 40 * DAY_SECONDS;

const NONE = ["DATABASE_URL", "DATABASE_OWNER_URL", "STRIPE_SECRET_KEY"];

/**
 * Returns the settings of a demo: separate data in a folder of `dataDir`, no payment processor, and planting that is
 * simulated at the pace of real planting. With the usual pace, every order would be verified after three minutes. Empty
 * settings hide those of the environment and of a .env file.
 */
export const demoSettings = (dataDir: string): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(NONE.flatMap((name) => [name, `${name}_FILE`]).map((name) => [name, ""])),
  TEMPORAL_ADDRESS: "",
  DATA_DIR: join(dataDir, "demo"),
  PLANTING_PARTNER: "simulated",
  PLANTING_TIMELINE: "allocations",
  SIMULATED_PLANTING_SECONDS: String(DEMO_STEP_SECONDS),
  PLANTING_ORDER_INTERVAL_SECONDS: String(DAY_SECONDS),
});
