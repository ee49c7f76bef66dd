import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { Readiness } from "./server/watchHealth.ts";

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
  registry.registerMetric(
    new Gauge({
      ...description,
      // By default, prom-client adds it to its global registry.
      registers: [],
      collect() {
        set(this);
      },
    }),
  );
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
