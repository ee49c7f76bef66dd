import type { DriverClient } from "slonik";

/**
 * How long a connection keeps the plans of its prepared statements. PostgreSQL keeps them until it analyzes a table, which
 * autovacuum does once a minute at most: a plan that was made while a table was small reads all of it, also when it has a
 * million rows by then. Planning the few statements of a connection again takes some milliseconds.
 */
const RENEWED_AFTER_MS = 5000;

/** Returns a connection's way to run statements, which plans prepared statements again now and then. */
export const renewingPlans = (run: DriverClient["query"]): DriverClient["query"] => {
  let plannedAtMs = -Infinity;
  return async (text, values, options) => {
    if (options?.name !== undefined && performance.now() - plannedAtMs > RENEWED_AFTER_MS) {
      plannedAtMs = performance.now();
      await run("DISCARD PLANS");
    }
    return run(text, values, options);
  };
};
