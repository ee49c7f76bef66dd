import { collectDefaultMetrics, Counter, Gauge, Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import type { SendResult } from "../domain/billing/decideNextStep.ts";
import type { UsageStream } from "../domain/billing/usage.ts";
import type { Clock } from "../domain/clock.ts";
import type { LateRefusal } from "../services/billing/processorEvents/applyRefusalReport.ts";
import { addDatabaseMetrics } from "./addDatabaseMetrics.ts";

export type WorkerMetrics = {
  readonly registry: Registry;
  readonly observeSend: (stream: UsageStream, result: SendResult) => void;
  readonly observeRefusal: (refusal: LateRefusal) => void;
  /** Records that this process has dispatched everything that was waiting. */
  readonly observeDispatch: () => void;
};

/** Creates the Prometheus metrics of a worker process. */
export const createWorkerMetrics = ({
  db,
  clock,
}: {
  readonly db: DatabasePool;
  readonly clock: Clock;
}): WorkerMetrics => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const meterEvents = new Counter({
    name: "impact_meter_event_attempts_total",
    help: "Attempts to send a meter event, by mode, meter and outcome.",
    labelNames: ["mode", "meter", "outcome"],
    registers,
  });
  const refusals = new Counter({
    name: "impact_meter_events_refused_after_delivery_total",
    help: "Meter events that the processor refused after it had accepted them, by mode and meter.",
    labelNames: ["mode", "meter"],
    registers,
  });
  const lastDispatch = new Gauge({
    name: "impact_dispatcher_last_pass_timestamp_seconds",
    help: "Unix time of this process's last complete pass as the dispatcher; 0 if it has not been the dispatcher.",
    registers,
  });
  addDatabaseMetrics(registry, { db, clock });
  return {
    registry,
    observeSend: ({ mode, meter }, result) =>
      meterEvents.inc({
        mode,
        meter,
        outcome: result.kind === "settled" ? result.state : result.cause,
      }),
    observeRefusal: ({ event: { mode, meter } }) => refusals.inc({ mode, meter }),
    observeDispatch: () => lastDispatch.set(clock.now().getTime() / 1000),
  };
};
