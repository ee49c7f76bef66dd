import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { newSecret } from "../modules/events/manageWebhookEndpoints.ts";
import { runConcurrently } from "../runtime/runConcurrently.ts";
import { signWebhook } from "../modules/events/signWebhook.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { accountIds } from "./support/waitUntilDrained.ts";
import { watchGroups } from "./support/watchMachine.ts";

export type WebhookSizes = {
  readonly endpoints: number;
  /** Of each endpoint. */
  readonly deliveries: number;
  /** Endpoints whose server never responds, beside the others. */
  readonly silent: number;
};

/** Of each endpoint that never gets a response: several rounds of what it may receive at the same time. */
const SILENT_DELIVERIES = 50;
/** The dispatcher and the task queues of a new worker are running by then. */
const UNTIL_IDLE_MS = 5000;
const POLL_MS = 250;
const DELIVERED_WITHIN_MS = 10 * 60 * 1000;
const BARE_CONCURRENCY = 40;

const DATA = { registration_id: "r", kind: "tree", count: 1, remaining_count: 0 };

/** Creates an endpoint for each account. Their paths are the accounts' numbers. */
const createEndpoints = async (
  client: Client,
  accounts: readonly string[],
  url: string,
): Promise<void> => {
  await client.query(
    `WITH endpoint AS (
       INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at)
       SELECT gen_random_uuid(), account_id, 'live', $2 || '/' || number, '', now()
       FROM unnest($1::uuid[]) WITH ORDINALITY AS account (account_id, number)
       RETURNING id
     )
     INSERT INTO webhook_secret (endpoint_id, secret, created_at)
     SELECT id, $3, now()
     FROM endpoint`,
    [accounts, url, newSecret()],
  );
};

/** Records events that are due now for all endpoints whose URL begins with a text. */
const recordDeliveries = async (client: Client, url: string, count: number): Promise<void> => {
  await client.query(
    `INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
     SELECT id, gen_random_uuid(), 'registration.refunded', now(), $3::json, now(), now()
     FROM generate_series(1, $2)
     CROSS JOIN webhook_endpoint
     WHERE starts_with(url, $1)`,
    [url, count, JSON.stringify(DATA)],
  );
};

/** Waits until all deliveries to URLs that begin with a text have been made. Returns when the last one ended. */
const waitUntilDelivered = async (client: Client, url: string): Promise<Date> => {
  const deadline = performance.now() + DELIVERED_WITHIN_MS;
  for (;;) {
    const { rows } = await client.query<{ pending: number }>(
      `SELECT count(*)::integer AS pending
       FROM webhook_delivery
       JOIN webhook_endpoint ON webhook_endpoint.id = endpoint_id
       WHERE state = 'pending' AND starts_with(url, $1)`,
      [url],
    );
    if (rows[0]?.pending === 0) {
      break;
    }
    if (performance.now() > deadline) {
      throw new Error(`${rows[0]?.pending} deliveries are still pending.`);
    }
    await sleep(POLL_MS);
  }
  const { rows } = await client.query<{ ended_at: Date }>(
    `SELECT max(started_at + make_interval(secs => duration_ms / 1000.0)) AS ended_at
     FROM webhook_attempt
     JOIN webhook_endpoint ON webhook_endpoint.id = endpoint_id
     WHERE starts_with(url, $1)`,
    [url],
  );
  return rows[0]?.ended_at ?? new Date(Number.NaN);
};

/** Signs and sends the same requests without a database, each by a connection of its own. Returns how many a second. */
const measureBare = async (url: string, count: number): Promise<number> => {
  const agent = new Agent();
  const secret = newSecret();
  const send = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const now = new Date();
      const { headers, body } = signWebhook(
        {
          id: crypto.randomUUID(),
          transactionId: 1n,
          type: "registration.refunded",
          occurredAt: now,
          data: DATA,
        },
        [secret],
        now,
      );
      request(url, { agent, method: "POST", headers })
        .on("response", (response) => response.resume().on("end", resolve))
        .on("error", reject)
        .end(body);
    });
  const startedAtMs = performance.now();
  await runConcurrently(Array.from({ length: count }), send, { concurrency: BARE_CONCURRENCY });
  return count / ((performance.now() - startedAtMs) / 1000);
};

const measureCase = async (
  services: Services,
  { endpoints, deliveries, silent }: WebhookSizes,
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("webhooks");
  const receiver = await services.startProgram("bench/webhookReceiver.ts", {});
  const accounts = accountIds(endpoints + silent);
  await createAccounts(databaseUrl, accounts);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const quickUrl = `${receiver.url}/quick`;
  const silentUrl = `${receiver.url}/silent`;
  await createEndpoints(client, accounts.slice(0, endpoints), quickUrl);
  await createEndpoints(client, accounts.slice(endpoints), silentUrl);
  await client.query("VACUUM (ANALYZE) account, webhook_endpoint, webhook_secret");
  const count = endpoints * deliveries;
  const bare = await measureBare(quickUrl, count);
  const worker = await services.startProgram("worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    PLANTING_ORDER_INTERVAL_SECONDS: "86400",
    WEBHOOK_ALLOW_HTTP: "on",
    WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
  });
  await recordDeliveries(client, silentUrl, SILENT_DELIVERIES);
  await sleep(UNTIL_IDLE_MS);
  const readCpu = await watchGroups({
    worker: [worker.pid],
    Temporal: "temporal",
    PostgreSQL: "postgres",
  });
  const startedAt = Date.now();
  await recordDeliveries(client, quickUrl, deliveries);
  const endedAt = await waitUntilDelivered(client, quickUrl);
  const cpu = Object.entries(await readCpu()).map(
    ([group, ms]) => `${group} ${(ms / count).toFixed(2)}`,
  );
  await client.end();
  await worker.stop();
  await receiver.stop();
  await services.dropDatabase("webhooks");
  const seconds = (endedAt.getTime() - startedAt) / 1000;
  const rate = count / seconds;
  const what = `webhooks: ${endpoints} endpoints × ${deliveries} deliveries${silent === 0 ? "" : ` beside ${silent} that never respond`}`;
  const measured = `${rate.toFixed(0)}/s, the last after ${seconds.toFixed(1)} s; ms of CPU each: ${cpu.join(", ")}`;
  report(`${what}: ${measured}; bare ${bare.toFixed(0)}/s`);
  return {
    what,
    measured,
    baseline: `${bare.toFixed(0)} bare requests/s`,
    ratio: (rate / bare).toFixed(2),
    goal: "",
    isReached: null,
  };
};

/** Measures deliveries to one endpoint, to many, and to many beside others that never respond. */
export const measureWebhooks = async (
  services: Services,
  { endpoints, deliveries, silent }: WebhookSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const cases: readonly WebhookSizes[] = [
    { endpoints: 1, deliveries: endpoints * deliveries, silent: 0 },
    { endpoints, deliveries, silent: 0 },
    { endpoints, deliveries, silent },
  ];
  const results: Result[] = [];
  for (const each of cases) {
    results.push(await measureCase(services, each, report));
  }
  return results;
};
