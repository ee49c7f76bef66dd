import type { Registry } from "prom-client";
import { addGauge } from "../addGauge.ts";
import type { Readiness } from "./watchHealth.ts";

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
