import type { ChildProcess } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { lockTable } from "../support/lockWaits.ts";
import type { TableLock } from "../support/lockWaits.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { listen } from "../support/server.ts";

const test = testWithDatabase();

const countRow = z.strictObject({ count: z.int() });

/** Starts the API with its metrics and log. `exited` is how it has exited, once all that it has written is read. */
const startApi = async (t: ExecutionContext, settings: Readonly<Record<string, string>>) => {
  const observed = { METRICS_PORT: "0", LOG_LEVEL: "info", ...settings };
  const api = await startProgram(t, "api/main.ts", observed);
  // Not "close", which is not emitted if this process closes the IPC channel.
  const exit = once(api.process, "exit");
  const read = [api.process.stdout, api.process.stderr].flatMap((stream) =>
    stream === null ? [] : [once(stream, "close")],
  );
  return { ...api, exited: Promise.all(read).then(() => exit) };
};

const plantTree = (url: string | undefined, key: string): Promise<Response> =>
  fetch(`${url}/plant/trees`, {
    method: "POST",
    headers: { Authorization: key, "Content-Type": "application/json" },
    body: '{"count":1}',
  });

test("the program serves both interfaces and its metrics and reports their URLs to its parent", async (t) => {
  const { databaseUrl: DATABASE_URL, db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const { urls } = await startApi(t, { DATABASE_URL });

  t.is((await plantTree(urls["standalone"], apiKeyTest)).status, 200);
  t.is((await fetch(`${urls["store"]}/healthz`)).status, 200);
  const unknown = await fetch(`${urls["store"]}/unknown`);
  t.is(unknown.status, 404);
  t.deepEqual(await unknown.json(), { error: "not found", code: "NOT_FOUND" });
  const metrics = await (await fetch(`${urls["metrics"]}/metrics`)).text();
  t.regex(
    metrics,
    /^impact_http_request_duration_seconds_count\{method="POST",route="\/plant\/trees",status="200"\} 1$/mu,
  );
  t.regex(
    metrics,
    /^impact_http_request_duration_seconds_count\{.*route="unknown",status="404"\} 1$/mu,
  );
  t.regex(metrics, /^impact_registration_batch_size_count 1$/mu);
  t.regex(metrics, /^impact_registration_queue_length 0$/mu);
});

/** Locks the table of registrations, so that requests stay in progress until the lock is released. */
const holdRegistrations = (t: ExecutionContext, databaseUrl: string): Promise<TableLock> =>
  lockTable(t, databaseUrl, "registration", "SHARE ROW EXCLUSIVE");

for (const [title, end] of [
  ["SIGTERM", (child: ChildProcess) => child.kill("SIGTERM")],
  ["a closed channel to its parent", (child: ChildProcess) => child.disconnect()],
] as const) {
  test.serial(`after ${title} the program answers every accepted request and exits`, async (t) => {
    const { databaseUrl: DATABASE_URL, db } = t.context;
    const { apiKeyProd } = await createTestOrganization(db);
    const { process: child, exited, urls, lines, errors } = await startApi(t, { DATABASE_URL });
    const plant = async () => (await plantTree(urls["standalone"], apiKeyProd)).status;
    const held = await holdRegistrations(t, DATABASE_URL);
    // The first request waits in its transaction, the others wait behind it in the queue.
    const first = plant();
    await eventually(async () => (await held.countWaiting()) === 1);
    const others = Array.from({ length: 49 }, plant);
    await eventually(async () => {
      const metrics = await (await fetch(`${urls["metrics"]}/metrics`)).text();
      return /^impact_registration_queue_length 49$/mu.test(metrics);
    });

    end(child);
    await eventually(() =>
      fetch(`${urls["standalone"]}/healthz`).then(
        () => false,
        () => true,
      ),
    );
    await held.release();
    const statuses = await Promise.all([first, ...others]);

    t.deepEqual([...new Set(statuses)], [200]);
    t.deepEqual(await exited, [0, null]);
    t.deepEqual(errors, []);
    t.true(lines.some((line) => line.includes('"stopped"')));
    const { rows } = await t.context.db.query(sql.type(countRow)`
    SELECT count(*)::int AS count
    FROM registration
    JOIN api_key ON api_key.account_id = registration.account_id
    WHERE api_key.hash = ${sql.binary(hash("sha256", apiKeyProd, "buffer"))}
    `);
    t.is(rows[0]?.count, 50);
  });
}

test.serial("after SIGTERM it serves without being ready, until a second signal", async (t) => {
  const { databaseUrl: DATABASE_URL, db } = t.context;
  const { apiKeyProd } = await createTestOrganization(db);
  const settings = { DATABASE_URL, DRAIN_SECONDS: "600" };
  const { process: child, exited, urls } = await startApi(t, settings);
  const before = await fetch(`${urls["standalone"]}/readyz`);
  t.is(before.status, 200);
  t.is(before.headers.get("connection"), "keep-alive");

  child.kill("SIGTERM");

  await eventually(async () => (await fetch(`${urls["standalone"]}/readyz`)).status === 503);
  t.like(await (await fetch(`${urls["store"]}/readyz`)).json(), { status: "stopping" });
  const planted = await plantTree(urls["standalone"], apiKeyProd);
  t.is(planted.status, 200);
  t.is(planted.headers.get("connection"), "close");
  child.kill("SIGTERM");
  t.deepEqual(await exited, [0, null]);
});

for (const [title, settings, message] of [
  [
    "without DATABASE_URL the error says what to set and what to run",
    () => ({}),
    /^DATABASE_URL is not set\. .*npm start$/mu,
  ],
  [
    "an unreachable database is reported without its password",
    () => ({ DATABASE_URL: "postgres://user:secret@127.0.0.1:1/impact" }),
    /^The database at 127\.0\.0\.1:1\/impact cannot be used: .*ECONNREFUSED.* Check DATABASE_URL\.$/mu,
  ],
  [
    "a database without the schema is rejected with the command to run",
    (databaseUrl: string) => ({ DATABASE_URL: new URL("/template1", databaseUrl).href }),
    /impact -- migrate$/mu,
  ],
  ["a malformed setting is reported", () => ({ PORT: "eighty" }), /PORT must be a port number/u],
] as const) {
  test(title, async (t) => {
    const error = await t.throwsAsync(startApi(t, settings(t.context.databaseUrl)));

    t.regex(error.message, /^api\/main\.ts ended with code 1:$/mu);
    t.regex(error.message, message);
    t.notRegex(error.message, /^\s+at /mu);
    t.notRegex(error.message, /secret/u);
  });
}

test("a port in use is reported with its setting", async (t) => {
  const port = await listen(t, createServer());
  for (const setting of ["PORT", "STORE_PORT", "METRICS_PORT"]) {
    await t.throwsAsync(
      startApi(t, { DATABASE_URL: t.context.databaseUrl, [setting]: String(port) }),
      { message: new RegExp(`^127\\.0\\.0\\.1:${port} is in use\\. Set ${setting} `, "mu") },
    );
  }
});

test.serial("blocked reads end with a 503, and delay no writes and no other account", async (t) => {
  const { db, databaseUrl } = t.context;
  const flooding = await createTestOrganization(db);
  const other = await createTestOrganization(db);
  const settings = { DATABASE_URL: databaseUrl, DATABASE_POOL_SIZE: "2", LOG_LEVEL: "silent" };
  const { urls } = await startProgram(t, "api/main.ts", settings);
  const call = async (key: string, path: string, body?: object) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    const retryAfter = response.headers.get("retry-after");
    return { status: response.status, retryAfter, body: await response.json() };
  };
  const listDonations = () => call(flooding.apiKeyTest, "/charities/donations");
  t.like(await listDonations(), { status: 200 });
  const lock = await lockTable(t, databaseUrl, "donation");

  let listsDone = 0;
  const lists = Promise.all(
    Array.from({ length: 6 }, () =>
      listDonations().finally(() => {
        listsDone += 1;
      }),
    ),
  );
  await eventually(async () => (await lock.countWaiting()) > 0);
  const planted = await call(flooding.apiKeyTest, "/plant/trees", { count: 1 });
  const summary = await call(other.apiKeyTest, "/evidence");

  t.is(planted.status, 200);
  t.is(summary.status, 200);
  t.is(listsDone, 0, "neither waited for the lists to time out");
  const responses = await lists;
  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([503]));
  t.true(responses.every(({ retryAfter }) => retryAfter === "1"));
  t.true(
    responses.some(
      ({ body }) =>
        JSON.stringify(body) ===
        '{"error":"the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days"}',
    ),
  );
  await lock.release();
  t.like(await listDonations(), { status: 200 });
});
