import { Client } from "pg";
import { startStripeDouble } from "../test/stripeDouble/startStripeDouble.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { percentile } from "./support/statistics.ts";
import {
  accountIds,
  countRegistrations,
  requireUnits,
  waitUntilDelivering,
  waitUntilDrained,
} from "./support/waitUntilDrained.ts";
import { watchGroups, watchMachine } from "./support/watchMachine.ts";

export const TARGETS = ["ledger", "stripe"] as const;
export type Target = (typeof TARGETS)[number];

export type BacklogSizes = {
  readonly accounts: number;
  /** Events of each account. */
  readonly events: number;
  /** How many workers report them together. */
  readonly workers: number;
  readonly targets: readonly Target[];
};

export type TrafficSizes = {
  readonly accounts: number;
  /** The interval of an account's registrations. */
  readonly everySeconds: number;
  readonly seconds: number;
  /** Whether a transaction has a snapshot of the beginning. */
  readonly hasOpenSnapshot: boolean;
  readonly targets: readonly Target[];
};

/** Typical duration of a call to Stripe from another continent. */
const STRIPE_LATENCY_MS = 100;
const LOAD_CONNECTIONS = 16;
/** The goal allows the two seconds before a second is sealed, and some retries. */
const UP_TO_DATE_WITHIN_SECONDS = 10;

/**
 * Registers one bottle per account and second of the last minute, without the API. Trees would also be put into planting
 * orders, whose workflows would be measured with the events.
 */
const fillAccounts = async (
  databaseUrl: string,
  accounts: readonly string[],
  seconds: number,
): Promise<void> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica");
    await client.query(
      `WITH inserted AS (
         INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch)
         SELECT
           uuidv7(), account_id, 'live', 'bottle', 1, date_trunc('second', now()) - make_interval(secs => 5 + $2 - second),
           -- As if each had been recorded by itself.
           nextval('usage_batch')
         FROM unnest($1::uuid[]) AS account_id
         CROSS JOIN generate_series(1, $2::integer) AS second
         RETURNING account_id, created_at, usage_batch
       )
       INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
       SELECT account_id, 'live', 'bottle', usage_batch, 1, extract(epoch FROM created_at)::bigint
       FROM inserted
       ORDER BY created_at`,
      [accounts, seconds],
    );
    // As autovacuum would have done.
    await client.query("VACUUM (ANALYZE) registration, usage_fact, account");
  } finally {
    await client.end();
  }
};

/** What reporting may cost of all cores together, in milliseconds an event. */
const GOAL_MS_PER_EVENT = 1;

type ReportingGroups = "worker" | "Temporal" | "PostgreSQL";

/** Returns the CPU time of an event by process group as text, and their sum. */
const perEvent = (
  cpuMs: Readonly<Record<ReportingGroups, number>>,
  events: number,
): { readonly text: string; readonly totalMs: number } => {
  const groups = Object.entries(cpuMs).map(([name, ms]) => ({ name, ms: ms / events }));
  const totalMs = groups.reduce((sum, { ms }) => sum + ms, 0);
  const parts = groups.map(({ name, ms }) => `${name} ${ms.toFixed(2)}`).join(", ");
  return { totalMs, text: `${totalMs.toFixed(2)} ms of CPU an event (${parts})` };
};

const targetName = (target: Target): string =>
  target === "stripe" ? `Stripe double (${STRIPE_LATENCY_MS} ms)` : "ledger";

/** Creates the accounts, and a Stripe double with a customer for each if they are billed there. */
const prepareAccounts = async (
  databaseUrl: string,
  temporalAddress: string,
  count: number,
  target: Target,
) => {
  const accounts = accountIds(count);
  const double =
    target === "stripe" ? await startStripeDouble({ latencyMs: STRIPE_LATENCY_MS }) : null;
  const keys = await createAccounts(
    databaseUrl,
    accounts,
    double ? accounts.map(() => double.control.addSubscriber({}).customerId) : [],
  );
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: temporalAddress,
    ...(double ? { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url } : {}),
  };
  return { accounts, keys, double, settings };
};

/** Measures what reporting alone costs: the usage is there before the worker starts. */
const measureBacklogTo = async (
  services: Services,
  { accounts: count, events, workers: workerCount }: BacklogSizes,
  target: Target,
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("backlog");
  const { accounts, double, settings } = await prepareAccounts(
    databaseUrl,
    await services.startTemporal(),
    count,
    target,
  );
  await fillAccounts(databaseUrl, accounts, events);
  const startedAt = Date.now();
  const workers = await Promise.all(
    Array.from({ length: workerCount }, () => services.startProgram("worker/main.ts", settings)),
  );
  // A worker's startup is not the cost of an event.
  const deliveredBefore = await waitUntilDelivering(databaseUrl);
  const readCpu = await watchGroups({
    worker: workers.map(({ pid }) => pid),
    Temporal: "temporal",
    PostgreSQL: "postgres",
  });
  const readOtherShare = await watchMachine();
  const drained = await waitUntilDrained(databaseUrl, accounts);
  const cpu = perEvent(await readCpu(), drained.events - deliveredBefore);
  const others = await readOtherShare();
  await Promise.all(workers.map(({ stop }) => stop()));
  await double?.close();
  await services.dropDatabase("backlog");
  requireUnits(drained, count * events);
  const seconds = (drained.lastSettledAt.getTime() - startedAt) / 1000;
  const rate = `${(drained.events / seconds).toFixed(0)} events/s`;
  const by = workerCount === 1 ? "" : `, ${workerCount} workers`;
  report(
    `backlog of ${count} accounts to ${targetName(target)}${by}: ${rate}, ${cpu.text}, ${drained.attempts} calls; ` +
      `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
  );
  return {
    what: `backlog: ${count} accounts × ${events} events, ${targetName(target)}${by}`,
    measured: `${rate} including the worker's startup; ${cpu.text}`,
    baseline: `${drained.events} events`,
    ratio: `${drained.attempts} calls`,
    goal: `at most ${GOAL_MS_PER_EVENT} ms an event`,
    isReached: cpu.totalMs <= GOAL_MS_PER_EVENT,
  };
};

/** Begins a transaction that keeps PostgreSQL from removing old versions of rows, as pg_dump does. */
const openSnapshot = async (databaseUrl: string): Promise<Client> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  await client.query("SELECT FROM deployment");
  return client;
};

/** Measures whether reporting keeps up with registrations that the API receives at the same time. */
const measureTrafficTo = async (
  services: Services,
  { accounts: count, everySeconds, seconds, hasOpenSnapshot }: TrafficSizes,
  target: Target,
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("traffic");
  const { accounts, keys, double, settings } = await prepareAccounts(
    databaseUrl,
    await services.startTemporal(),
    count,
    target,
  );
  const worker = await services.startProgram("worker/main.ts", settings);
  const api = await services.startProgram("api/main.ts", settings);
  const readCpu = await watchGroups({
    worker: [worker.pid],
    Temporal: "temporal",
    PostgreSQL: "postgres",
    API: [api.pid],
    // It runs in this process.
    double: [process.pid],
  });
  const readOtherShare = await watchMachine();
  const snapshot = hasOpenSnapshot ? await openSnapshot(databaseUrl) : null;
  const load = await runLoad({
    url: `${api.url}/rescue/plastic_bottles`,
    keys,
    connections: LOAD_CONNECTIONS,
    requestsPerSecond: count / everySeconds,
    warmUpMs: 0,
    durationMs: seconds * 1000,
  });
  const endedAt = Date.now();
  const drained = await waitUntilDrained(databaseUrl, accounts);
  const { API: apiMs, double: doubleMs, ...reporting } = await readCpu();
  const cpu = perEvent(reporting, drained.events);
  const others = await readOtherShare();
  await snapshot?.end();
  await worker.stop();
  await api.stop();
  await double?.close();
  requireUnits(drained, await countRegistrations(databaseUrl));
  await services.dropDatabase("traffic");
  const afterSeconds = (drained.lastSettledAt.getTime() - endedAt) / 1000;
  const ascending = drained.lagsSeconds.toSorted((left, right) => left - right);
  const p99Seconds = percentile(ascending, 0.99);
  const lags = `last event ${afterSeconds.toFixed(1)} s after the end; lag p50 ${percentile(ascending, 0.5).toFixed(1)} s, p99 ${p99Seconds.toFixed(1)} s`;
  const what = `traffic: ${count} accounts × 1 every ${everySeconds} s, ${seconds} s through the API, ${targetName(target)}${hasOpenSnapshot ? ", open snapshot" : ""}`;
  report(
    `${what}: ${load.requestsPerSecond.toFixed(0)} registrations/s, ${lags}; ${cpu.text}, with the writes; ` +
      `API ${(apiMs / drained.events).toFixed(2)} ms${double ? `, double ${(doubleMs / drained.events).toFixed(2)} ms` : ""}; ${drained.attempts} calls for ${drained.events} events; ` +
      `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
  );
  return {
    what,
    measured: lags,
    baseline: `${load.requestsPerSecond.toFixed(0)} registrations/s`,
    ratio: `${drained.attempts} calls`,
    goal: `last event ${UP_TO_DATE_WITHIN_SECONDS} s after the end, p99 under ${UP_TO_DATE_WITHIN_SECONDS} s`,
    isReached: Math.max(afterSeconds, p99Seconds) <= UP_TO_DATE_WITHIN_SECONDS,
  };
};

/** Measures what reporting the usage of many accounts costs. */
export const measureBacklog = async (
  services: Services,
  sizes: BacklogSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const results: Result[] = [];
  for (const target of sizes.targets) {
    results.push(await measureBacklogTo(services, sizes, target, report));
  }
  return results;
};

/** Measures whether reporting the usage of many accounts keeps up with their registrations. */
export const measureTraffic = async (
  services: Services,
  sizes: TrafficSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const results: Result[] = [];
  for (const target of sizes.targets) {
    results.push(await measureTrafficTo(services, sizes, target, report));
  }
  return results;
};
