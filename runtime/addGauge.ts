import { Gauge } from "prom-client";
import type { Registry } from "prom-client";

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
