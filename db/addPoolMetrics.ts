import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { addGauge } from "../runtime/gauges.ts";

/**
 * Registers the use of a process's connections to PostgreSQL.
 * @param pools by the name that the metrics have for them
 */
export const addPoolMetrics = (
  registry: Registry,
  pools: Readonly<Record<string, DatabasePool>>,
): void => {
  addGauge(
    registry,
    {
      name: "impact_database_connections",
      help: "Connections to PostgreSQL, by pool and state: busy, idle or opening.",
      labelNames: ["pool", "state"],
    },
    (gauge) => {
      for (const [pool, { state }] of Object.entries(pools)) {
        const { acquiredConnections, idleConnections, pendingConnections } = state();
        gauge.set({ pool, state: "busy" }, acquiredConnections);
        gauge.set({ pool, state: "idle" }, idleConnections);
        gauge.set({ pool, state: "opening" }, pendingConnections);
      }
    },
  );
  addGauge(
    registry,
    {
      name: "impact_database_waiting",
      help: "Work that waits for a connection to PostgreSQL, by pool.",
      labelNames: ["pool"],
    },
    (gauge) => {
      for (const [pool, { state }] of Object.entries(pools)) {
        gauge.set({ pool }, state().waitingClients);
      }
    },
  );
};
