import { collectDefaultMetrics, Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { Readiness } from "./server/watchHealth.ts";
import type { DatabasePool } from "slonik";

/** By default, the lag of the event loop is measured 100 times a second, which is most of what an idle process does. */
const LAG_INTERVAL_MS = 100;

export const collectProcessMetrics = (register: Registry): void =>
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: LAG_INTERVAL_MS });

/** Registers a gauge that is set whenever the metrics are read. */
export const addGauge = (
  registry: Registry,
  description: {
    readonly name: string;
    readonly help: string;
    readonly labelNames?: readonly string[];
  },
  set: (gauge: Gauge) => void,
): void => {
  const gauge: Gauge = new Gauge({
    ...description,
    registers: [registry],
    collect: () => set(gauge),
  });
};

/** Registers what the process knows about the services that it depends on. A scrape reads the latest checks. */
export const addHealthMetrics = (registry: Registry, readReadiness: () => Readiness): void => {
  for (const [name, help, part] of [
    ["impact_database_up", "1 while PostgreSQL responds to this process; otherwise 0.", "database"],
    ["impact_temporal_up", "1 while Temporal responds to this process; otherwise 0.", "temporal"],
  ] as const) {
    addGauge(registry, { name, help }, (gauge) =>
      gauge.set(readReadiness()[part] === "ok" ? 1 : 0),
    );
  }
};

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
