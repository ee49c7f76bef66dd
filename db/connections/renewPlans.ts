import type { DriverClient } from "slonik";

/*
 * PostgreSQL keeps the plan of a prepared statement until it analyzes a table, which autovacuum does once a minute at most.
 * A plan that was made while a table was small reads all of it, also when it has a million rows by then.
 */

/** How long a connection keeps its plans. Planning its few statements again takes some milliseconds. */
const RENEWED_AFTER_MS = 5000;
/** The same for a connection that has run as many statements again as before, because new tables grow fastest. */
const RENEWED_EARLY_AFTER_MS = 1000;

/** Returns a connection's way to run statements, which plans prepared statements again now and then. */
export const renewingPlans = (run: DriverClient["query"]): DriverClient["query"] => {
  let runs = 0;
  let renewed = { atMs: -Infinity, runs: 0 };
  return async (text, values, options) => {
    if (options?.name !== undefined) {
      runs += 1;
      const ageMs = performance.now() - renewed.atMs;
      const maximumAgeMs = runs >= 2 * renewed.runs ? RENEWED_EARLY_AFTER_MS : RENEWED_AFTER_MS;
      if (ageMs > maximumAgeMs) {
        renewed = { atMs: performance.now(), runs };
        await run("DISCARD PLANS");
      }
    }
    return run(text, values, options);
  };
};
