import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { readCallRate } from "../../db/billing/sending/callRate.ts";
import { readDeployment } from "../../db/billing/deployment.ts";
import { readDispatcherStatus } from "../../db/billing/sending/dispatcherLease.ts";
import {
  countFailedMeterEvents,
  countLateMeterEvents,
  countUncreditedMeterEvents,
} from "../../db/billing/meterEventReports.ts";
import { countFailedProcessorEvents } from "../../db/billing/processorEvents/processorEvents.ts";
import { readReconciliationStatus } from "../../db/billing/reconciliation/reconciliations.ts";
import { countSubscriptionsByState } from "../../db/billing/processorEvents/stripeSubscriptions.ts";
import { summarizeWaitingStreams } from "../../db/billing/sending/waitingStreams.ts";
import { listShardAges } from "../../db/shards.ts";
import { readFeedHorizon } from "../../db/events/feed.ts";
import { countLowBalances } from "../../db/stores/balances.ts";
import { readWebhookState } from "../../db/webhooks/state.ts";
import { SUBSCRIPTION_POLICIES } from "../../domain/accounts/accounts.ts";
import { currentCallsPerSecond } from "../../domain/billing/callRate.ts";
import { findHold } from "../../domain/billing/deployment.ts";
import {
  listSubscriptionProblems,
  SUBSCRIPTION_PROBLEMS,
} from "../../domain/billing/subscriptions.ts";
import type { Clock } from "../../domain/clock.ts";
import { createScanPace } from "../../services/shards/createScanPace.ts";
import type { ScanPace } from "../../services/shards/createScanPace.ts";

type GaugeOf<State> = {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  readonly set: (gauge: Gauge, state: State) => void;
};

/** A query and the gauges that it fills. */
type DatabaseGauges = { readonly refresh: () => Promise<void> };

/**
 * The pace of queries whose costs grow with the number of accounts, streams, endpoints, stores or problems. Each worker makes
 * them for each Prometheus server, so they may take a hundredth of a worker's time.
 */
const createCostlyPace = (): ScanPace => createScanPace(0.01, { maximumIntervalMs: 60_000 });

/** Returns a function that reads, or returns what was read last until the pace's next scan is due. */
const withPace = <State>(read: () => Promise<State>, pace: ScanPace): (() => Promise<State>) => {
  let last: { readonly state: State } | null = null;
  return async () => {
    if (last === null || pace.isDue()) {
      last = { state: await pace.scan(read) };
    }
    return last.state;
  };
};

/** A gauge is registered when it has its first value, because 0 would look like one. */
const createGauges = <State>(
  registry: Registry,
  read: () => Promise<State>,
  gauges: readonly GaugeOf<State>[],
): DatabaseGauges => {
  const created = gauges.map(({ name, help, labelNames = [], set }) => ({
    gauge: new Gauge({ name, help, labelNames, registers: [] }),
    set,
  }));
  return {
    refresh: async () => {
      const state = await read();
      for (const { gauge, set } of created) {
        gauge.reset();
        set(gauge, state);
        registry.registerMetric(gauge);
      }
    },
  };
};

const createNumberGauge = (
  registry: Registry,
  read: () => Promise<number>,
  description: { readonly name: string; readonly help: string },
): DatabaseGauges =>
  createGauges(registry, read, [{ ...description, set: (gauge, value) => gauge.set(value) }]);

/**
 * Returns a function that reads for how many seconds the same open transaction has been the oldest, as far as this process
 * has seen. PostgreSQL itself shows the age of a transaction only to the role that it belongs to.
 */
const createFeedWatch = (db: DatabasePool): (() => Promise<number>) => {
  let oldest: { readonly transactionId: string; readonly seenAtMs: number } | null = null;
  return async () => {
    const { transactionId, isOpen } = await readFeedHorizon(db);
    const nowMs = performance.now();
    if (!isOpen) {
      oldest = null;
      return 0;
    }
    if (oldest?.transactionId !== transactionId) {
      oldest = { transactionId, seenAtMs: nowMs };
    }
    return (nowMs - oldest.seenAtMs) / 1000;
  };
};

/**
 * Registers the metrics of the database's state.
 * @returns a function that reads them; those that cannot be read keep their last values, and it rejects
 */
export const addDatabaseMetrics = (
  registry: Registry,
  {
    db,
    clock,
    createPace = createCostlyPace,
  }: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly createPace?: () => ScanPace;
  },
): (() => Promise<void>) => {
  const readWaiting = withPace(() => summarizeWaitingStreams(db), createPace());
  const readSubscriptions = withPace(() => countSubscriptionsByState(db), createPace());
  const readFailed = withPace(() => countFailedMeterEvents(db), createPace());
  const readLate = withPace(() => countLateMeterEvents(db), createPace());
  const readUncredited = withPace(() => countUncreditedMeterEvents(db), createPace());
  const readLowBalances = withPace(() => countLowBalances(db), createPace());
  const readWebhooks = withPace(() => readWebhookState(db, clock.now()), createPace());
  const gauges = [
    createGauges(registry, readWaiting, [
      {
        name: "impact_usage_waiting_streams",
        help: "Streams (account, mode, meter) with unreported usage.",
        set: (gauge, { streams }) => gauge.set(streams),
      },
      {
        name: "impact_usage_oldest_unreported_age_seconds",
        help: "Age of the oldest unreported usage; 0 if there is none.",
        set: (gauge, { oldestSecond }) =>
          gauge.set(
            oldestSecond === null ? 0 : Math.max(0, clock.now().getTime() / 1000 - oldestSecond),
          ),
      },
    ]),
    createGauges(registry, () => listShardAges(db, "usage"), [
      {
        name: "impact_usage_shard_last_pass_age_seconds",
        help: "How long ago the sender of a shard last looked for usage, by PostgreSQL's clock; until then, the time since the installation.",
        labelNames: ["shard"],
        set: (gauge, shards) => {
          for (const { number, ageSeconds } of shards) {
            gauge.set({ shard: String(number) }, ageSeconds);
          }
        },
      },
    ]),
    createNumberGauge(registry, async () => currentCallsPerSecond(await readCallRate(db)), {
      name: "impact_stripe_calls_per_second",
      help: "How many meter events all workers may send to Stripe in a second.",
    }),
    createNumberGauge(registry, async () => (await readDispatcherStatus(db)).lastPassAgeSeconds, {
      name: "impact_dispatcher_last_pass_age_seconds",
      help: "Age of the last complete pass of any worker as the dispatcher, by PostgreSQL's clock; until there is one, the time since the installation.",
    }),
    createNumberGauge(registry, async () => (findHold(await readDeployment(db)) ? 1 : 0), {
      name: "impact_usage_held",
      help: "1 while usage is held, so that nothing is sealed or sent; otherwise 0.",
    }),
    createNumberGauge(registry, readFailed, {
      name: "impact_meter_events_failed",
      help: "Meter events that failed permanently and need an operator.",
    }),
    createNumberGauge(registry, readLate, {
      name: "impact_meter_events_late",
      help: "Meter events that were delivered after their billing period ended and are not settled by hand.",
    }),
    createNumberGauge(registry, readUncredited, {
      name: "impact_meter_events_uncredited",
      help: "Refunds of usage that was settled by hand or waived, which may need a credit note.",
    }),
    createNumberGauge(registry, () => countFailedProcessorEvents(db), {
      name: "impact_processor_events_failed",
      help: "Events of the processor that could not be processed and need an operator.",
    }),
    createGauges(registry, () => readReconciliationStatus(db), [
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
    ]),
    createGauges(registry, readSubscriptions, [
      {
        name: "impact_subscriptions",
        help: "Stripe subscriptions of organizations, by status and policy, as they were last read.",
        labelNames: ["status", "policy"],
        set: (gauge, states) => {
          for (const { status, policy, subscriptions } of states) {
            gauge.inc({ status, policy }, subscriptions);
          }
        },
      },
      {
        name: "impact_subscription_problems",
        help: "Organizations whose Stripe subscription had a problem when it was last read, by problem and policy.",
        labelNames: ["problem", "policy"],
        set: (gauge, states) => {
          for (const problem of SUBSCRIPTION_PROBLEMS) {
            for (const policy of SUBSCRIPTION_POLICIES) {
              gauge.set({ problem, policy }, 0);
            }
          }
          for (const state of states) {
            const problems = listSubscriptionProblems(state).map(({ kind }) => kind);
            for (const problem of new Set(problems)) {
              gauge.inc({ problem, policy: state.policy }, state.subscriptions);
            }
          }
        },
      },
    ]),
    createNumberGauge(registry, createFeedWatch(db), {
      name: "impact_feed_held_back_seconds",
      help: "How long an open transaction has held back the feed of events, since this worker first saw it; 0 if none does.",
    }),
    createNumberGauge(registry, readLowBalances, {
      name: "impact_stores_low_balance",
      help: "Stores whose balance is below their low-balance threshold.",
    }),
    createGauges(registry, readWebhooks, [
      {
        name: "impact_webhook_endpoints",
        help: "Webhook endpoints, by state: enabled, failing (the last attempt failed), or why they are disabled: requested, gone, failing_for_days.",
        labelNames: ["state"],
        set: (gauge, { endpoints }) => {
          for (const [state, count] of Object.entries(endpoints)) {
            gauge.set({ state }, count);
          }
        },
      },
      {
        name: "impact_webhook_unattended_seconds",
        help: "Longest wait of a due delivery to an endpoint that is not failing and that no worker is calling; 0 if there is none.",
        set: (gauge, { unattendedSeconds }) => gauge.set(unattendedSeconds),
      },
    ]),
  ];
  return async () => {
    const results = await Promise.allSettled(gauges.map(({ refresh }) => refresh()));
    const failed = results.find((result) => result.status === "rejected");
    if (failed) {
      throw failed.reason;
    }
  };
};
