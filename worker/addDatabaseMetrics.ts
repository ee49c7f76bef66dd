import { Gauge } from "prom-client";
import type { Registry } from "prom-client";
import type { DatabasePool } from "slonik";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
import { countUsageAttention } from "../modules/billing/meterEventReports.sql.ts";
import { ATTENTION_CAUSES } from "../modules/billing/meterEvents.rules.ts";
import { readLastSuccess } from "../modules/billing/reconciliation/reconciliations.sql.ts";
import { listInvoicedUsage } from "../modules/billing/invoices/invoicedUsage.sql.ts";
import { INVOICE_PROBLEMS } from "../modules/billing/invoices/invoices.rules.ts";
import { listWatchedSubscriptions } from "../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listWaitingStreams } from "../modules/billing/sending/waitingStreams.sql.ts";
import { listLastPasses } from "../db/perpetualWork.sql.ts";
import { readFeedHorizon } from "../modules/feed/feed.sql.ts";
import { countLowBalances } from "../modules/stores/stores.sql.ts";
import { countEndpointStates, ENDPOINT_STATES } from "../modules/events/endpoints.sql.ts";
import { SUBSCRIPTION_POLICIES } from "../modules/accounts/accounts.rules.ts";
import {
  listSubscriptionProblems,
  SUBSCRIPTION_PROBLEMS,
} from "../modules/billing/subscriptions.rules.ts";
import { createPaced } from "../db/createScan.ts";
import type { Context } from "../runtime/context.ts";

type Labels = Readonly<Record<string, string>>;

/** A value, or values with their labels; those of the same labels are added up. */
type Values = number | readonly (readonly [labels: Labels, value: number])[];

type GaugeOf<State> = {
  readonly name: string;
  readonly help: string;
  /** The values of each label that are 0 unless the query returns others. */
  readonly labels?: Readonly<Record<string, readonly string[]>>;
  readonly values: (state: State, now: Date) => Values;
};

const combine = (labels: Readonly<Record<string, readonly string[]>>): readonly Labels[] =>
  Object.entries(labels).reduce<readonly Labels[]>(
    (combined, [label, values]) =>
      combined.flatMap((others) => values.map((value) => ({ ...others, [label]: value }))),
    [{}],
  );

/**
 * Returns what adds the gauges of a query, and returns a function that refreshes them. A gauge is registered when it has its
 * first value, because 0 would look like one.
 */
const gaugesOf =
  <State>(
    createRead: (db: DatabasePool) => () => Promise<State>,
    ...gauges: readonly GaugeOf<State>[]
  ) =>
  (registry: Registry, { db, clock }: Context) => {
    const read = createRead(db);
    const created = gauges.map(({ name, help, labels = {}, values }) => ({
      gauge: new Gauge({ name, help, labelNames: Object.keys(labels), registers: [] }),
      zeros: combine(labels),
      values,
    }));
    return async (): Promise<void> => {
      const state = await read();
      for (const { gauge, zeros, values } of created) {
        gauge.reset();
        for (const labels of zeros) {
          gauge.inc(labels, 0);
        }
        const given = values(state, clock.now());
        for (const [labels, value] of typeof given === "number" ? [[{}, given] as const] : given) {
          gauge.inc(labels, value);
        }
        registry.registerMetric(gauge);
      }
    };
  };

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

const DATABASE_GAUGES = [
  gaugesOf(
    (db) => () => listWaitingStreams(db),
    {
      name: "impact_usage_waiting_streams",
      help: "Streams (account, mode, meter) with unreported usage.",
      values: (streams) => streams.length,
    },
    {
      name: "impact_usage_oldest_unreported_age_seconds",
      help: "Age of the oldest unreported usage; 0 if there is none.",
      values: ([oldest], now) => (oldest ? Math.max(0, now.getTime() / 1000 - oldest.second) : 0),
    },
  ),
  gaugesOf((db) => () => listLastPasses(db), {
    name: "impact_last_pass_age_seconds",
    help: "How long ago a worker last looked for usage to send (usage-sender), for webhook deliveries (webhook-sender), and for refunds and events of the processor (dispatcher), by PostgreSQL's clock; until then, the time since the installation.",
    labels: { kind: [] },
    values: (passes) => passes.map(({ kind, ageSeconds }) => [{ kind }, ageSeconds]),
  }),
  gaugesOf((db) => () => readDeployment(db), {
    name: "impact_usage_held",
    help: "1 while usage is held, so that nothing is sealed or sent; otherwise 0.",
    values: ({ hold }) => (hold ? 1 : 0),
  }),
  gaugesOf(
    (db) => () => countUsageAttention(db),
    {
      name: "impact_usage_attention_items",
      help: "Meter events and differences that `impact usage` lists, by cause. Those in trouble or asked about settle by themselves.",
      labels: { cause: ATTENTION_CAUSES },
      values: (causes) => causes.map(({ cause, items }) => [{ cause }, items]),
    },
    {
      name: "impact_usage_attention_units",
      help: "The units of these, without signs.",
      labels: { cause: ATTENTION_CAUSES },
      values: (causes) => causes.map(({ cause, units }) => [{ cause }, units]),
    },
  ),
  gaugesOf((db) => () => readLastSuccess(db), {
    name: "impact_reconciliation_last_success_timestamp_seconds",
    help: "Unix time at which the last successful reconciliation ended; before the first, that of the installation.",
    values: ({ lastSuccessAt, installedAt }) => (lastSuccessAt ?? installedAt).getTime() / 1000,
  }),
  gaugesOf(
    (db) => () => listWatchedSubscriptions(db, null),
    {
      name: "impact_subscriptions",
      help: "Stripe subscriptions of organizations, by status and policy, as they were last read.",
      labels: { status: [], policy: [] },
      values: (states) => states.map(({ status, policy }) => [{ status, policy }, 1]),
    },
    {
      name: "impact_subscription_problems",
      help: "Organizations whose Stripe subscription had a problem when it was last read, by problem and policy.",
      labels: { problem: SUBSCRIPTION_PROBLEMS, policy: SUBSCRIPTION_POLICIES },
      values: (states) =>
        states.flatMap((state) =>
          [...new Set(listSubscriptionProblems(state).map(({ kind }) => kind))].map(
            (problem) => [{ problem, policy: state.policy }, 1] as const,
          ),
        ),
    },
  ),
  gaugesOf((db) => () => listInvoicedUsage(db, null, { onlyProblems: true }), {
    name: "impact_uninvoiced_units",
    help: "Delivered units that no invoice has, that differ from it, or that two invoices have, by problem, when invoices were last compared.",
    labels: { problem: INVOICE_PROBLEMS },
    values: (usage) =>
      usage.map(({ problem, units }) => [{ problem: problem ?? "" }, Math.abs(units)]),
  }),
  gaugesOf(createFeedWatch, {
    name: "impact_feed_held_back_seconds",
    help: "How long an open transaction has held back the feed of events, since this worker first saw it; 0 if none does.",
    values: (seconds) => seconds,
  }),
  gaugesOf((db) => () => countLowBalances(db), {
    name: "impact_stores_low_balance",
    help: "Stores whose balance is below their low-balance threshold.",
    values: (count) => count,
  }),
  gaugesOf((db) => () => countEndpointStates(db), {
    name: "impact_webhook_endpoints",
    help: "Webhook endpoints, by state: enabled, failing (the last attempt failed), or why they are disabled: requested, gone, failing_for_days.",
    labels: { state: ENDPOINT_STATES },
    values: (counts) => [...counts].map(([state, count]) => [{ state }, count]),
  }),
];

/** Each worker reads for each Prometheus server. */
const SHARE_OF_READING = 0.01;
const MAXIMUM_REST_MS = 60_000;

/**
 * Registers the metrics of the database's state.
 * @returns a function that reads them, unless it rests; those that cannot be read keep their last values, and it rejects
 */
export const addDatabaseMetrics = (
  registry: Registry,
  { db, clock, monotonicMs }: Context & { readonly monotonicMs?: () => number },
): (() => Promise<void>) => {
  const refreshes = DATABASE_GAUGES.map((addGauges) => addGauges(registry, { db, clock }));
  const refreshAll = createPaced(() => Promise.allSettled(refreshes.map((refresh) => refresh())), {
    share: SHARE_OF_READING,
    maximumIntervalMs: MAXIMUM_REST_MS,
    monotonicMs,
  });
  return async () => {
    const failed = (await refreshAll())?.find((result) => result.status === "rejected");
    if (failed) {
      throw failed.reason;
    }
  };
};
