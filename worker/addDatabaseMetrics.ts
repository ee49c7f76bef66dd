import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { readCallRate } from "../modules/billing/sending/callRate.sql.ts";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
import { countUsageAttention } from "../modules/billing/meterEventReports.sql.ts";
import { ATTENTION_CAUSES } from "../modules/billing/meterEvents.rules.ts";
import { countFailedProcessorEvents } from "../modules/billing/processorEvents/processorEvents.sql.ts";
import { readReconciliationStatus } from "../modules/billing/reconciliation/reconciliations.sql.ts";
import { listInvoicedUsage } from "../modules/billing/invoices/invoicedUsage.sql.ts";
import { INVOICE_PROBLEMS } from "../modules/billing/invoices/invoices.rules.ts";
import { countSubscriptionsByState } from "../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listWaitingStreams } from "../modules/billing/sending/waitingStreams.sql.ts";
import { listShardStatuses } from "../db/shards.sql.ts";
import { readFeedHorizon } from "../modules/feed/feed.sql.ts";
import { countLowBalances } from "../modules/stores/balances.sql.ts";
import { readWebhookState } from "../modules/events/endpointHealth.sql.ts";
import { SUBSCRIPTION_POLICIES } from "../modules/accounts/accounts.rules.ts";
import { currentCallsPerSecond } from "../modules/billing/sending/callRate.rules.ts";
import { findHold } from "../modules/billing/deployment.rules.ts";
import {
  listSubscriptionProblems,
  SUBSCRIPTION_PROBLEMS,
} from "../modules/billing/subscriptions.rules.ts";
import type { Clock } from "../runtime/clock.ts";
import { createScanPace } from "../db/createScanPace.ts";
import type { ScanPace } from "../db/createScanPace.ts";

/** What queries read from. */
type Source = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly readHeldBackSeconds: () => Promise<number>;
};

type Query<State> = {
  readonly read: (source: Source) => Promise<State>;
  /** Whether its cost grows with the number of accounts, streams, endpoints, stores or problems. */
  readonly isCostly?: boolean;
};

type GaugeText = { readonly name: string; readonly help: string };

type GaugeOf<State> = GaugeText & {
  readonly labelNames?: readonly string[];
  readonly set: (gauge: Gauge, state: State, now: Date) => void;
};

/** Adds the gauges that a query fills. Returns a function that refreshes them. */
type AddGauges = (
  registry: Registry,
  source: Source,
  createPace: () => ScanPace,
) => () => Promise<void>;

/**
 * The pace of costly queries. Each worker makes them for each Prometheus server, so they may take a hundredth of a worker's
 * time.
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
const gaugesOf =
  <State>({
    read,
    isCostly = false,
    gauges,
  }: Query<State> & { readonly gauges: readonly GaugeOf<State>[] }): AddGauges =>
  (registry, source, createPace) => {
    const readNow = (): Promise<State> => read(source);
    const readState = isCostly ? withPace(readNow, createPace()) : readNow;
    const created = gauges.map(({ name, help, labelNames = [], set }) => ({
      gauge: new Gauge({ name, help, labelNames, registers: [] }),
      set,
    }));
    return async () => {
      const state = await readState();
      for (const { gauge, set } of created) {
        gauge.reset();
        set(gauge, state, source.clock.now());
        registry.registerMetric(gauge);
      }
    };
  };

const numberGauge = ({ name, help, ...query }: Query<number> & GaugeText): AddGauges =>
  gaugesOf({ ...query, gauges: [{ name, help, set: (gauge, value) => gauge.set(value) }] });

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

const DATABASE_GAUGES: readonly AddGauges[] = [
  gaugesOf({
    read: ({ db }) => listWaitingStreams(db),
    isCostly: true,
    gauges: [
      {
        name: "impact_usage_waiting_streams",
        help: "Streams (account, mode, meter) with unreported usage.",
        set: (gauge, streams) => gauge.set(streams.length),
      },
      {
        name: "impact_usage_oldest_unreported_age_seconds",
        help: "Age of the oldest unreported usage; 0 if there is none.",
        set: (gauge, [oldest], now) =>
          gauge.set(oldest ? Math.max(0, now.getTime() / 1000 - oldest.second) : 0),
      },
    ],
  }),
  gaugesOf({
    read: ({ db }) => listShardStatuses(db, "usage"),
    gauges: [
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
    ],
  }),
  numberGauge({
    read: async ({ db }) => currentCallsPerSecond(await readCallRate(db)),
    name: "impact_stripe_calls_per_second",
    help: "How many meter events all workers may send to Stripe in a second.",
  }),
  gaugesOf({
    read: ({ db }) => listShardStatuses(db, "dispatcher"),
    gauges: [
      {
        name: "impact_dispatcher_last_pass_age_seconds",
        help: "How long ago the dispatcher last completed a pass, by PostgreSQL's clock; until then, the time since the installation.",
        set: (gauge, dispatchers) => {
          for (const { ageSeconds } of dispatchers) {
            gauge.set(ageSeconds);
          }
        },
      },
    ],
  }),
  numberGauge({
    read: async ({ db }) => (findHold(await readDeployment(db)) ? 1 : 0),
    name: "impact_usage_held",
    help: "1 while usage is held, so that nothing is sealed or sent; otherwise 0.",
  }),
  gaugesOf({
    read: ({ db }) => countUsageAttention(db),
    isCostly: true,
    gauges: [
      {
        name: "impact_usage_attention_items",
        help: "Meter events and differences that `impact usage` lists, by cause. Those in trouble or asked about settle by themselves.",
        labelNames: ["cause"],
        set: (gauge, causes) => {
          for (const cause of ATTENTION_CAUSES) {
            gauge.set({ cause }, causes.find((each) => each.cause === cause)?.items ?? 0);
          }
        },
      },
      {
        name: "impact_usage_attention_units",
        help: "The units of these, without signs.",
        labelNames: ["cause"],
        set: (gauge, causes) => {
          for (const cause of ATTENTION_CAUSES) {
            gauge.set({ cause }, causes.find((each) => each.cause === cause)?.units ?? 0);
          }
        },
      },
    ],
  }),
  numberGauge({
    read: ({ db }) => countFailedProcessorEvents(db),
    name: "impact_processor_events_failed",
    help: "Events of the processor that could not be processed and need an operator.",
  }),
  gaugesOf({
    read: ({ db }) => readReconciliationStatus(db),
    gauges: [
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
    ],
  }),
  gaugesOf({
    read: ({ db }) => countSubscriptionsByState(db),
    isCostly: true,
    gauges: [
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
    ],
  }),
  gaugesOf({
    read: ({ db }) => listInvoicedUsage(db, null, { onlyProblems: true }),
    gauges: [
      {
        name: "impact_uninvoiced_units",
        help: "Delivered units that no invoice has, that differ from it, or that two invoices have, by problem, when invoices were last compared.",
        labelNames: ["problem"],
        set: (gauge, usage) => {
          for (const problem of INVOICE_PROBLEMS) {
            gauge.set({ problem }, 0);
          }
          for (const { problem, units } of usage) {
            gauge.inc({ problem: problem ?? "" }, Math.abs(units));
          }
        },
      },
    ],
  }),
  numberGauge({
    read: ({ readHeldBackSeconds }) => readHeldBackSeconds(),
    name: "impact_feed_held_back_seconds",
    help: "How long an open transaction has held back the feed of events, since this worker first saw it; 0 if none does.",
  }),
  numberGauge({
    read: ({ db }) => countLowBalances(db),
    isCostly: true,
    name: "impact_stores_low_balance",
    help: "Stores whose balance is below their low-balance threshold.",
  }),
  gaugesOf({
    read: ({ db, clock }) => readWebhookState(db, clock.now()),
    isCostly: true,
    gauges: [
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
    ],
  }),
];

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
  const source = { db, clock, readHeldBackSeconds: createFeedWatch(db) };
  const refreshes = DATABASE_GAUGES.map((addGauges) => addGauges(registry, source, createPace));
  return async () => {
    const results = await Promise.allSettled(refreshes.map((refresh) => refresh()));
    const failed = results.find((result) => result.status === "rejected");
    if (failed) {
      throw failed.reason;
    }
  };
};
