import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { openPool } from "../db/pool.ts";
import { systemClock } from "../domain/clock.ts";
import { createRegistrationWriter } from "../services/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../test/stripeDouble/startStripeDouble.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { median } from "./support/statistics.ts";
import { watchMachine } from "./support/watchMachine.ts";

export type SenderSizes = {
  readonly facts: number;
  readonly accounts: number;
  readonly trafficSeconds: number;
};

const FACTS_SPAN_SECONDS = 60;
/** Typical duration of a call to Stripe from another continent. */
const STRIPE_LATENCY_MS = 100;
const LOAD_CONNECTIONS = 16;
const DRAIN_WITHIN_MS = 10 * 60 * 1000;
const POLL_MS = 250;

type Drained = {
  readonly units: number;
  readonly events: number;
  readonly attempts: number;
  readonly lastSettledAt: Date;
  /** Seconds from the end of a meter event's second to its delivery. */
  readonly lagsSeconds: readonly number[];
};

const accountIds = (count: number): readonly string[] =>
  Array.from({ length: count }, () => crypto.randomUUID());

/** Waits until all usage of the accounts is delivered and returns statistics of the delivery. */
const waitUntilDrained = async (
  databaseUrl: string,
  accounts: readonly string[],
): Promise<Drained> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const deadline = performance.now() + DRAIN_WITHIN_MS;
    for (;;) {
      const { rows } = await client.query<{ waiting: boolean }>(
        `SELECT
           EXISTS (SELECT FROM usage_fact WHERE meter_event_id IS NULL AND account_id = ANY($1))
           OR EXISTS (
             SELECT FROM meter_event WHERE state IN ('sealed', 'sending') AND account_id = ANY($1)
           ) AS waiting`,
        [accounts],
      );
      if (rows[0]?.waiting === false) {
        break;
      }
      if (performance.now() > deadline) {
        throw new Error(
          `Usage is still pending ${DRAIN_WITHIN_MS / 1000} seconds after the traffic.`,
        );
      }
      await sleep(POLL_MS);
    }
    const { rows } = await client.query<{
      quantity: string;
      attempts: number;
      second: string;
      settled_at: Date;
    }>(
      `SELECT quantity, attempts, second, settled_at FROM meter_event
       WHERE state = 'delivered' AND account_id = ANY($1)`,
      [accounts],
    );
    return {
      units: rows.reduce((sum, row) => sum + Number(row.quantity), 0),
      events: rows.length,
      attempts: rows.reduce((sum, row) => sum + row.attempts, 0),
      lastSettledAt: new Date(Math.max(...rows.map((row) => row.settled_at.getTime()))),
      lagsSeconds: rows.map((row) => row.settled_at.getTime() / 1000 - Number(row.second) - 1),
    };
  } finally {
    await client.end();
  }
};

/** @throws Error unless all registered units were delivered; the measured time would mean nothing otherwise */
const requireUnits = ({ units }: Drained, expected: number): void => {
  if (units !== expected) {
    throw new Error(`${units} of ${expected} registered units were delivered.`);
  }
};

const measureBusyAccount = async (
  services: Services,
  facts: number,
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("busy_account");
  const accounts = accountIds(1);
  await createAccounts(databaseUrl, accounts);
  await fillRegistrations(databaseUrl, {
    accountId: accounts[0] ?? "",
    count: facts,
    spanSeconds: FACTS_SPAN_SECONDS,
    reported: false,
  });
  const startedAt = Date.now();
  const worker = await services.startProgram("worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
  });
  const drained = await waitUntilDrained(databaseUrl, accounts);
  await worker.stop();
  await services.dropDatabase("busy_account");
  requireUnits(drained, facts);
  const seconds = (drained.lastSettledAt.getTime() - startedAt) / 1000;
  report(
    `sender, one account: ${drained.events} events, ${seconds.toFixed(1)} s including startup`,
  );
  return {
    what: `sender: ${facts} facts of one account in ${FACTS_SPAN_SECONDS} s`,
    measured: `${drained.events} events, ${seconds.toFixed(1)} s after the worker's start`,
    baseline: `${facts} facts`,
    ratio: `1 : ${(facts / drained.events).toFixed(0)}`,
    goal: `at most ${FACTS_SPAN_SECONDS + 1} events`,
    isReached: drained.events <= FACTS_SPAN_SECONDS + 1,
  };
};

/** Registers one unit per account and second, through the API's registration writer. */
const runTraffic = async (
  databaseUrl: string,
  accounts: readonly string[],
  seconds: number,
): Promise<Date> => {
  const db = await openPool(databaseUrl);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  try {
    // Early in a second, so that a slow write does not end in the next one.
    const startMs = Math.ceil(Date.now() / 1000) * 1000 + 200;
    for (let second = 0; second < seconds; second += 1) {
      await sleep(Math.max(0, startMs + second * 1000 - Date.now()));
      await Promise.all(
        accounts.map((accountId) =>
          writer.register({
            accountId,
            mode: "live",
            kind: "tree",
            count: 1,
            fractionalCount: 0,
            idempotencyKey: null,
            attribution: "bench",
            metadata: {},
          }),
        ),
      );
    }
    return new Date();
  } finally {
    await db.end();
  }
};

const measureManyAccounts = async (
  services: Services,
  { accounts: count, trafficSeconds }: SenderSizes,
  { stripe, withLoad }: { readonly stripe: boolean; readonly withLoad: boolean },
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("many_accounts");
  const accounts = accountIds(count);
  const double = stripe ? await startStripeDouble({ latencyMs: STRIPE_LATENCY_MS }) : null;
  await createAccounts(
    databaseUrl,
    accounts,
    double ? accounts.map(() => double.control.addSubscriber({}).customerId) : [],
  );
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    // The interval of a real partner, because this benchmark is about usage.
    PLANTING_ORDER_INTERVAL_SECONDS: "86400",
    ...(double ? { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url } : {}),
  };
  const worker = await services.startProgram("worker/main.ts", settings);
  const api = withLoad ? await services.startProgram("api/main.ts", settings) : null;
  const readOtherShare = await watchMachine();
  const loading = api
    ? runLoad({
        url: `${api.url}/plant/trees`,
        keys: await createAccounts(databaseUrl, accountIds(1)),
        connections: LOAD_CONNECTIONS,
        warmUpMs: 0,
        durationMs: trafficSeconds * 1000,
      })
    : null;
  const endedAt = await runTraffic(databaseUrl, accounts, trafficSeconds);
  const load = await loading;
  const drained = await waitUntilDrained(databaseUrl, accounts);
  const others = await readOtherShare();
  await worker.stop();
  await api?.stop();
  await double?.close();
  await services.dropDatabase("many_accounts");
  requireUnits(drained, count * trafficSeconds);
  const afterSeconds = (drained.lastSettledAt.getTime() - endedAt.getTime()) / 1000;
  const to = stripe ? `Stripe double (${STRIPE_LATENCY_MS} ms)` : "ledger";
  const apiState = load ? `API under load (${load.requestsPerSecond.toFixed(0)}/s)` : "API idle";
  report(
    `sender, ${count} accounts to ${to}, ${apiState}: last event ${afterSeconds.toFixed(1)} s after the traffic, ` +
      `${drained.attempts} calls for ${drained.events} events; other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
  );
  return {
    what: `sender: ${count} accounts, 1 fact/s each, ${trafficSeconds} s, ${to}, ${apiState}`,
    measured: `last event ${afterSeconds.toFixed(1)} s after the end; median ${median(drained.lagsSeconds).toFixed(1)} s`,
    baseline: `${count * trafficSeconds} facts`,
    ratio: `${drained.attempts} calls`,
    goal: "",
    isReached: null,
  };
};

/** The goal allows the two seconds before a second is sealed, and some retries. */
const UP_TO_DATE_WITHIN_SECONDS = 10;
const FAILING_SHARE = 0.15;

/** Measures whether a stream with one event a second keeps up while some of Stripe's responses are a 500. */
export const measureRetries = async (
  services: Services,
  trafficSeconds: number,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("failing_calls");
  const accounts = accountIds(1);
  const double = await startStripeDouble({ latencyMs: STRIPE_LATENCY_MS });
  await createAccounts(databaseUrl, accounts, [double.control.addSubscriber({}).customerId]);
  const worker = await services.startProgram("worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  });
  double.control.addFault({
    kind: "server_error",
    probability: FAILING_SHARE,
    times: Number.MAX_SAFE_INTEGER,
  });
  const endedAt = await runTraffic(databaseUrl, accounts, trafficSeconds);
  const drained = await waitUntilDrained(databaseUrl, accounts);
  await worker.stop();
  await double.close();
  await services.dropDatabase("failing_calls");
  requireUnits(drained, trafficSeconds);
  const afterSeconds = (drained.lastSettledAt.getTime() - endedAt.getTime()) / 1000;
  const lags = `last event ${afterSeconds.toFixed(1)} s after the end; median ${median(drained.lagsSeconds).toFixed(1)} s, at most ${Math.max(...drained.lagsSeconds).toFixed(1)} s`;
  report(`sender, ${FAILING_SHARE * 100} % of calls fail: ${lags}`);
  return [
    {
      what: `sender: one account, 1 fact/s, ${trafficSeconds} s, ${FAILING_SHARE * 100} % of Stripe's responses a 500`,
      measured: lags,
      baseline: `${trafficSeconds} facts`,
      ratio: `${drained.attempts} calls`,
      goal: `last event at most ${UP_TO_DATE_WITHIN_SECONDS} s after the end`,
      isReached: afterSeconds <= UP_TO_DATE_WITHIN_SECONDS,
    },
  ];
};

/** Measures how fast usage reaches the built-in ledger and the Stripe double, with a real worker and Temporal server. */
export const measureSender = async (
  services: Services,
  sizes: SenderSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => [
  await measureBusyAccount(services, sizes.facts, report),
  await measureManyAccounts(services, sizes, { stripe: false, withLoad: false }, report),
  await measureManyAccounts(services, sizes, { stripe: false, withLoad: true }, report),
  await measureManyAccounts(services, sizes, { stripe: true, withLoad: false }, report),
];
