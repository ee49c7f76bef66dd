import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { startStripeDouble } from "../test/stripeDouble/startStripeDouble.ts";
import type { Benchmark, Sizes } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Services } from "./support/startServices.ts";
import { watchCpu } from "./support/watchMachine.ts";

/** Typical duration of a call to Stripe from another continent. */
const STRIPE_LATENCY_MS = 100;

const POLL_MS = 250;

/**
 * Registers one bottle per account and second of the last minute, without the API. Trees would also be put into planting
 * orders, whose workflows would be measured with the events.
 */
const fillAccounts = async (
  client: Client,
  accounts: readonly string[],
  seconds: number,
): Promise<void> => {
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
};

/** Waits until that many events are delivered and returns how many are. */
const waitForEvents = async (client: Client, atLeast: number): Promise<number> => {
  for (;;) {
    const { rows } = await client.query<{ count: number }>(
      "SELECT count(*)::integer AS count FROM meter_event WHERE state = 'delivered'",
    );
    const count = rows[0]?.count ?? 0;
    if (count >= atLeast) {
      return count;
    }
    await delay(POLL_MS);
  }
};

type Reported = {
  readonly eventsPerSecond: number;
  /** CPU time of an event. */
  readonly cpuMs: number;
  /** Of the worker, Temporal and PostgreSQL. */
  readonly partsMs: readonly number[];
};

/** Measures a worker from the first event to the last. Its startup is not the cost of an event. */
const reportBacklog = async (
  services: Services,
  client: Client,
  events: number,
  settings: Readonly<Record<string, string>>,
): Promise<Reported> => {
  const worker = await services.startProgram("worker/main.ts", settings);
  const before = await waitForEvents(client, 1);
  const startedAtMs = performance.now();
  const watched = await Promise.all([[worker.pid], "temporal", "postgres"].map(watchCpu));
  const measured = (await waitForEvents(client, events)) - before;
  const seconds = (performance.now() - startedAtMs) / 1000;
  const partsMs = await Promise.all(watched.map(async (readMs) => (await readMs()) / measured));
  await worker.stop();
  const cpuMs = partsMs.reduce((sum, ms) => sum + ms, 0);
  return { eventsPerSecond: measured / seconds, cpuMs, partsMs };
};

const measureTarget = async (
  services: Services,
  { accounts: count, events }: Sizes,
  target: "ledger" | "stripe",
): Promise<Reported> => {
  const databaseUrl = await services.createDatabase("report");
  const double =
    target === "stripe"
      ? await startStripeDouble({ teardown: () => undefined }, { latencyMs: STRIPE_LATENCY_MS })
      : null;
  const accounts = accountIds(count);
  await createAccounts(
    databaseUrl,
    accounts,
    double ? accounts.map(() => double.control.addSubscriber({}).customerId) : [],
  );
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await fillAccounts(client, accounts, events);
  const reported = await reportBacklog(services, client, count * events, {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    ...double?.env,
  });
  await client.end();
  await double?.close();
  await services.dropDatabase("report");
  return reported;
};

const describe = ({ eventsPerSecond, cpuMs, partsMs }: Reported): string =>
  `${eventsPerSecond.toFixed(0)} events/s, ${cpuMs.toFixed(2)} ms of CPU an event ` +
  `(${partsMs.map((ms) => ms.toFixed(2)).join(" + ")}, worker + Temporal + PostgreSQL)`;

/**
 * Measures what reporting costs: the usage of many accounts is there before the worker starts. The baseline of the Stripe
 * double is the built-in ledger, which needs no calls.
 */
export const report: Benchmark = async ({ services, sizes, log }) => {
  const rounds = await repeatUndisturbed(
    sizes.rounds,
    async () => ({
      ledger: await measureTarget(services, sizes, "ledger"),
      stripe: await measureTarget(services, sizes, "stripe"),
    }),
    ({ ledger, stripe }) => `to the ledger ${describe(ledger)}; to the double ${describe(stripe)}`,
    log,
  );
  return [
    compareRounds("reporting: events/s to the Stripe double, and to the ledger", rounds, {
      value: ({ stripe }) => stripe.eventsPerSecond,
      baseline: ({ ledger }) => ledger.eventsPerSecond,
    }),
    compareRounds("reporting: ms of CPU an event to the Stripe double, and to the ledger", rounds, {
      value: ({ stripe }) => stripe.cpuMs,
      baseline: ({ ledger }) => ledger.cpuMs,
      digits: 2,
      goal: { below: 1 },
    }),
  ];
};
