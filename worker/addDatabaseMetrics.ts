import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { readDeployment } from "../db/billing/deployment.ts";
import { countFailedMeterEvents, countLateMeterEvents } from "../db/billing/meterEventReports.ts";
import { countFailedProcessorEvents } from "../db/billing/processorEvents.ts";
import { readReconciliationStatus } from "../db/billing/reconciliations.ts";
import { listWatchedSubscriptions } from "../db/billing/stripeSubscriptions.ts";
import { listWaitingStreams } from "../db/billing/usageFacts.ts";
import { countLowBalances } from "../db/stores/balances.ts";
import { SUBSCRIPTION_POLICIES } from "../domain/accounts/accounts.ts";
import { findHold } from "../domain/billing/deployment.ts";
import {
  listSubscriptionProblems,
  SUBSCRIPTION_PROBLEMS,
} from "../domain/billing/subscriptions.ts";
import type { Clock } from "../domain/clock.ts";

type GaugeOf<State> = {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  readonly set: (gauge: Gauge, state: State) => void;
};

/** Registers gauges that one query fills. A scrape runs it once for all of them. */
const addGauges = <State>(
  registry: Registry,
  read: () => Promise<State>,
  gauges: readonly GaugeOf<State>[],
): void => {
  let reading: Promise<State> | null = null;
  const readOnce = (): Promise<State> => {
    reading ??= read().finally(() => {
      reading = null;
    });
    return reading;
  };
  for (const { name, help, labelNames = [], set } of gauges) {
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames,
        registers: [],
        async collect() {
          const state = await readOnce();
          this.reset();
          set(this, state);
        },
      }),
    );
  }
};

/** Registers the metrics of the database's state, which is read on each scrape. */
export const addDatabaseMetrics = (
  registry: Registry,
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
): void => {
  addGauges(registry, () => listWaitingStreams(db), [
    {
      name: "impact_usage_waiting_streams",
      help: "Streams (account, mode, meter) with unreported usage.",
      set: (gauge, waiting) => gauge.set(waiting.length),
    },
    {
      name: "impact_usage_oldest_unreported_age_seconds",
      help: "Age of the oldest unreported usage; 0 if there is none.",
      set: (gauge, waiting) => {
        const nowSeconds = clock.now().getTime() / 1000;
        gauge.set(Math.max(0, ...waiting.map(({ second }) => nowSeconds - second)));
      },
    },
  ]);
  addGauges(registry, () => readDeployment(db), [
    {
      name: "impact_usage_held",
      help: "1 while usage is held, so that nothing is sealed or sent; otherwise 0.",
      set: (gauge, deployment) => gauge.set(findHold(deployment) ? 1 : 0),
    },
  ]);
  addGauges(registry, () => countFailedMeterEvents(db), [
    {
      name: "impact_meter_events_failed",
      help: "Meter events that failed permanently and need an operator.",
      set: (gauge, failed) => gauge.set(failed),
    },
  ]);
  addGauges(registry, () => countLateMeterEvents(db), [
    {
      name: "impact_meter_events_late",
      help: "Meter events that were delivered after their billing period ended and are not settled by hand.",
      set: (gauge, late) => gauge.set(late),
    },
  ]);
  addGauges(registry, () => countFailedProcessorEvents(db), [
    {
      name: "impact_processor_events_failed",
      help: "Events of the processor that could not be processed and need an operator.",
      set: (gauge, failed) => gauge.set(failed),
    },
  ]);
  addGauges(registry, () => readReconciliationStatus(db), [
    {
      name: "impact_usage_drift_units",
      help: "Unacknowledged units by which the processor's usage differed from the delivered usage at the last reconciliation.",
      set: (gauge, { driftUnits }) => gauge.set(driftUnits),
    },
    {
      name: "impact_reconciliation_unreadable_streams",
      help: "Streams whose usage the processor did not return at the last reconciliation.",
      set: (gauge, { unreadable }) => gauge.set(unreadable),
    },
    {
      name: "impact_reconciliation_last_success_timestamp_seconds",
      help: "Unix time at which the last successful reconciliation ended; before the first, that of the installation.",
      set: (gauge, { lastSuccessAt, installedAt }) =>
        gauge.set((lastSuccessAt ?? installedAt).getTime() / 1000),
    },
  ]);
  addGauges(registry, () => listWatchedSubscriptions(db, null), [
    {
      name: "impact_subscriptions",
      help: "Stripe subscriptions of organizations, by status and policy, as they were last read.",
      labelNames: ["status", "policy"],
      set: (gauge, subscriptions) => {
        for (const { status, policy } of subscriptions) {
          gauge.inc({ status, policy });
        }
      },
    },
    {
      name: "impact_subscription_problems",
      help: "Organizations whose Stripe subscription had a problem when it was last read, by problem and policy.",
      labelNames: ["problem", "policy"],
      set: (gauge, subscriptions) => {
        for (const problem of SUBSCRIPTION_PROBLEMS) {
          for (const policy of SUBSCRIPTION_POLICIES) {
            gauge.set({ problem, policy }, 0);
          }
        }
        for (const subscription of subscriptions) {
          const problems = listSubscriptionProblems(subscription).map(({ kind }) => kind);
          for (const problem of new Set(problems)) {
            gauge.inc({ problem, policy: subscription.policy });
          }
        }
      },
    },
  ]);
  addGauges(registry, () => countLowBalances(db), [
    {
      name: "impact_stores_low_balance",
      help: "Stores whose balance is below their low-balance threshold.",
      set: (gauge, stores) => gauge.set(stores),
    },
  ]);
};
