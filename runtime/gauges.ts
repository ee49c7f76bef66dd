import { collectDefaultMetrics, Gauge } from "prom-client";
import type { GaugeConfiguration, Registry } from "prom-client";
import type { Readiness } from "./server/watchHealth.ts";
import type { DatabasePool } from "slonik";

/** Registers a gauge that is set whenever the metrics are read. */
export const addGauge = (
  registry: Registry,
  description: Pick<GaugeConfiguration<string>, "name" | "help" | "labelNames">,
  set: (gauge: Gauge) => void,
): void => {
  const gauge: Gauge = new Gauge({
    ...description,
    registers: [registry],
    collect: () => set(gauge),
  });
};

/** By default, the lag of the event loop is measured 100 times a second, which is most of what an idle process does. */
const LAG_INTERVAL_MS = 100;

/**
 * Registers the metrics that every process has: Node's, what it knows about the services that it depends on, of which a scrape
 * reads the latest checks, and the use of its connections to PostgreSQL.
 * @param pools by the name that the metrics have for them
 */
export const addProcessMetrics = (
  registry: Registry,
  readReadiness: () => Readiness,
  pools: Readonly<Record<string, DatabasePool>>,
): void => {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_INTERVAL_MS });
  for (const [part, service] of [
    ["database", "PostgreSQL"],
    ["temporal", "Temporal"],
  ] as const) {
    const name = `impact_${part}_up`;
    const help = `1 while ${service} responds to this process; otherwise 0.`;
    addGauge(registry, { name, help }, (gauge) =>
      gauge.set(Number(readReadiness()[part] === "ok")),
    );
  }
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
