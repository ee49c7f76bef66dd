import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";

/**
 * Registers the use of a process's connections to PostgreSQL.
 * @param pools by the name that the metrics have for them
 */
export const addPoolMetrics = (
  registry: Registry,
  pools: Readonly<Record<string, DatabasePool>>,
): void => {
  registry.registerMetric(
    new Gauge({
      name: "impact_database_connections",
      help: "Connections to PostgreSQL, by pool and state: busy, idle or opening.",
      labelNames: ["pool", "state"],
      registers: [],
      collect() {
        for (const [pool, { state }] of Object.entries(pools)) {
          const { acquiredConnections, idleConnections, pendingConnections } = state();
          this.set({ pool, state: "busy" }, acquiredConnections);
          this.set({ pool, state: "idle" }, idleConnections);
          this.set({ pool, state: "opening" }, pendingConnections);
        }
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_database_waiting",
      help: "Work that waits for a connection to PostgreSQL, by pool.",
      labelNames: ["pool"],
      registers: [],
      collect() {
        for (const [pool, { state }] of Object.entries(pools)) {
          this.set({ pool }, state().waitingClients);
        }
      },
    }),
  );
};
