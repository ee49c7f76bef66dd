import { Counter, Histogram, Registry } from "prom-client";
import { addGauge, collectProcessMetrics } from "../../runtime/gauges.ts";
import type { BatchObserver } from "../../db/batching/groupCommit.ts";
import type { RequestObserver } from "./observeRequests.ts";

/** @param load returns what is read whenever the metrics are */
export const createApiMetrics = (
  load: Readonly<Record<"openLists" | "queueLength", () => number>>,
) => {
  const registry = new Registry();
  collectProcessMetrics(registry);
  addGauge(
    registry,
    { name: "impact_open_lists", help: "Number of lists of registrations that are being sent." },
    (gauge) => gauge.set(load.openLists()),
  );
  addGauge(
    registry,
    {
      name: "impact_registration_queue_length",
      help: "Number of registrations waiting to be written.",
    },
    (gauge) => gauge.set(load.queueLength()),
  );
  const requests = new Histogram({
    name: "impact_http_request_duration_seconds",
    help: "Duration of HTTP requests in seconds by method, route pattern and status; unknown paths are one route.",
    labelNames: ["method", "route", "status"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
    registers: [registry],
  });
  const batchSizes = new Histogram({
    name: "impact_registration_batch_size",
    help: "Number of registrations written in one transaction.",
    buckets: [1, 2, 5, 10, 25, 50, 100, 200, 400],
    registers: [registry],
  });
  const batchDurations = new Histogram({
    name: "impact_registration_batch_duration_seconds",
    help: "Duration of the transaction that writes a batch, in seconds.",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
    registers: [registry],
  });
  const rejectedConnections = new Counter({
    name: "impact_connections_rejected_total",
    help: "Connections of clients that were closed because the process had its maximum.",
    registers: [registry],
  });
  return {
    registry,
    observeRejectedConnection: () => rejectedConnections.inc(),
    observeRequest: ((labels, durationSeconds) =>
      requests.observe(labels, durationSeconds)) satisfies RequestObserver,
    observeBatch: ((size, durationSeconds) => {
      batchSizes.observe(size);
      batchDurations.observe(durationSeconds);
    }) satisfies BatchObserver,
  };
};
