import { collectDefaultMetrics, Counter, Gauge, Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { listWaitingStreams } from "../db/billing/usageFacts.ts";
import { countFailedProcessorEvents } from "../db/billing/processorEvents.ts";
import { readReconciliationStatus } from "../db/billing/reconciliations.ts";
import { countSubscriptionsByStatus } from "../db/billing/stripeSubscriptions.ts";
import { countFailedMeterEvents } from "../db/billing/meterEventReports.ts";
import { readDeployment } from "../db/billing/deployment.ts";
import { findHold } from "../domain/billing/deployment.ts";
import type { Clock } from "../domain/clock.ts";
import type { LateRefusal } from "../services/billing/processorEvents/applyRefusalReport.ts";
import type { UsageStream } from "../domain/billing/usage.ts";
import type { SendResult } from "../domain/billing/decideNextStep.ts";

export type WorkerMetrics = {
  readonly registry: Registry;
  readonly observeSend: (stream: UsageStream, result: SendResult) => void;
  readonly observeRefusal: (refusal: LateRefusal) => void;
};

/** Creates the Prometheus metrics of a worker process. Metrics of the database's state are queried on each scrape. */
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
  const drift = new Gauge({
    name: "impact_usage_drift_units",
    help: "Unacknowledged units by which the processor's usage differed from the delivered usage at the last reconciliation.",
    registers,
  });
  const unreadable = new Gauge({
    name: "impact_reconciliation_unreadable_streams",
    help: "Streams whose usage the processor did not return at the last reconciliation.",
    registers,
  });
  const waitingStreams = new Gauge({
    name: "impact_usage_waiting_streams",
    help: "Streams (account, mode, meter) with unreported usage.",
    registers,
  });
  registry.registerMetric(
    new Gauge({
      name: "impact_usage_oldest_unreported_age_seconds",
      help: "Age of the oldest unreported usage; 0 if there is none.",
      registers: [],
      async collect() {
        const waiting = await listWaitingStreams(db);
        waitingStreams.set(waiting.length);
        const nowSeconds = clock.now().getTime() / 1000;
        this.set(Math.max(0, ...waiting.map(({ second }) => nowSeconds - second)));
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_usage_held",
      help: "1 while usage is held, so that nothing is sealed or sent; otherwise 0.",
      registers: [],
      async collect() {
        this.set(findHold(await readDeployment(db)) ? 1 : 0);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_meter_events_failed",
      help: "Meter events that failed permanently and need an operator.",
      registers: [],
      async collect() {
        this.set(await countFailedMeterEvents(db));
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_processor_events_failed",
      help: "Events of the processor that could not be processed and need an operator.",
      registers: [],
      async collect() {
        this.set(await countFailedProcessorEvents(db));
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_reconciliation_last_success_timestamp_seconds",
      help: "Unix time at which the last successful reconciliation ended; before the first, that of the installation.",
      registers: [],
      async collect() {
        const status = await readReconciliationStatus(db);
        drift.set(status.driftUnits);
        unreadable.set(status.unreadable);
        this.set((status.lastSuccessAt ?? status.installedAt).getTime() / 1000);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "impact_subscriptions",
      help: "Stripe subscriptions of organizations, by status and policy, as they were last read.",
      labelNames: ["status", "policy"],
      registers: [],
      async collect() {
        this.reset();
        for (const { status, policy, subscriptions } of await countSubscriptionsByStatus(db)) {
          this.set({ status, policy }, subscriptions);
        }
      },
    }),
  );
  return {
    registry,
    observeSend: ({ mode, meter }, result) =>
      meterEvents.inc({
        mode,
        meter,
        outcome: result.kind === "settled" ? result.state : result.cause,
      }),
    observeRefusal: ({ event: { mode, meter } }) => refusals.inc({ mode, meter }),
  };
};
