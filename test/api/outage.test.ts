import type { ExecutionContext } from "ava";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { pino } from "pino";
import type { DatabasePool } from "slonik";
import { signCallback } from "../../api/http/signatures.ts";
import { readServerStatus } from "../../db/connections/serverStatus.ts";
import { openReads } from "../../db/openDatabase.ts";
import { sql } from "../../db/sql.ts";
import { createDeploymentName } from "../../modules/billing/holdUsage.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { systemClock } from "../../runtime/clock.ts";
import { UnavailableError } from "../../runtime/errors.rules.ts";
import { watchHealth } from "../../runtime/server/watchHealth.ts";
import { openTemporalClient } from "../../runtime/temporalClient.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { asOwner, copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { READY } from "./testContext.ts";
import { startRelay } from "../support/relay.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";
import { idIn } from "./contract.ts";
import { startApiOf, startStandaloneApi } from "./startStandaloneApi.ts";
import type { ApiResponse, Call } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const isUnavailable = (t: ExecutionContext, { status, headers, body }: ApiResponse): void => {
  t.is(status, 503);
  t.is(headers.get("Retry-After"), "1");
  t.deepEqual(body, { error: "the service is temporarily unavailable, try again" });
};

test("without a connection to the database, requests are a 503, and their lines in the log have the reason", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const interrupted = await openTestPool(t, relay.url);
  const writer = createRegistrationWriter({ db: interrupted, clock: systemClock });
  const { post, logged } = await startApiOf(t, { writer });
  relay.cut();

  isUnavailable(t, await post("/plant/trees", { count: 1 }));

  const errors = logged().filter((line) => line["level"] === 50);
  t.is(errors.length, 1);
  t.like(errors[0], { msg: "request", route: "/plant/trees", status: 503, err: undefined });
  t.regex(String(errors[0]?.["reason"]), /ECONNREFUSED/u);
});

test("a write that the database refuses for now is a 503, of which nothing is recorded", async (t) => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl);
  const owner = await openTestPool(t, asOwner(databaseUrl), 1);
  const { id, post, logged } = await startApiOf(t, { db });
  const body = { count: 1, idempotency_key: "order-1" };
  await owner.query(sql.typeAlias("void")`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE disk_full USING MESSAGE = 'No space left on device'; END $$
  `);
  await owner.query(sql.typeAlias("void")`
    CREATE TRIGGER refuse AFTER INSERT ON usage_fact FOR EACH STATEMENT EXECUTE FUNCTION refuse()
  `);

  const writes = [post("/plant/trees", body), post("/plant/trees/batch", { items: [body] })];
  for (const response of await Promise.all(writes)) {
    isUnavailable(t, response);
  }
  const error = logged().find((line) => line["level"] === 50);
  t.is(error?.["reason"], "No space left on device");
  t.false("err" in (error ?? {}));

  await owner.query(sql.typeAlias("void")`DROP TRIGGER refuse ON usage_fact`);
  t.is((await readAccountSums(db, id)).registrations, 0);
  t.is((await post("/plant/trees", body)).status, 200);
  t.is((await readAccountSums(db, id)).registrations, 1);
});

test("a write to a database that has become read-only is a 503, and lists are read", async (t) => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl);
  const owner = await openTestPool(t, asOwner(databaseUrl), 1);
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  await createDeploymentName({ db, clock: systemClock });
  await owner.query(sql.typeAlias("void")`
    ALTER DATABASE ${sql.identifier([new URL(databaseUrl).pathname.slice(1)])}
    SET default_transaction_read_only = on
  `);
  const { call, logged } = await startStandaloneApi(t, { db: await openTestPool(t, databaseUrl) });

  for (const [path, body] of [
    ["/plant/trees", { count: 1 }],
    ["/plant/trees/batch", { items: [{ count: 1 }] }],
  ] as const) {
    isUnavailable(t, await call("POST", path, { key, body }));
  }
  const error = logged().find((line) => line["level"] === 50);
  t.regex(String(error?.["reason"]), /in a read-only transaction$/u);
  t.is((await call("GET", "/plant/trees", { key })).status, 200);
  t.is((await readAccountSums(db, id)).registrations, 0);
});

test("without a database, neither a key nor a partner's report is rejected: both are a 503", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const { call } = await startStandaloneApi(t, {
    db: await openTestPool(t, relay.url),
    plantingCallbackSecrets: ["secret"],
  });
  relay.cut();
  const fact = { stage: "funds_distributed", occurred_at: "2026-05-01T12:00:00Z" };
  const facts = [{ ...fact, partner_reference: "NCP-2291" }];
  const body = JSON.stringify({ order: "po_0198c5df2b6a7d10b7c1a2d3e4f50617", facts });
  const now = Math.floor(systemClock.now().getTime() / 1000);
  const headers = { "Planting-Signature": `t=${now},v1=${signCallback("secret", body, now)}` };

  isUnavailable(t, await call("GET", "/evidence", { key: `impact_prod_${"x".repeat(32)}` }));
  isUnavailable(t, await call("POST", "/planting/callback", { body, headers }));
});

test("a batch that is recorded is no 503, although its results cannot be read; a 503 is no replay", async (t) => {
  const { db, databaseUrl } = t.context;
  const relay = await startRelay(t, databaseUrl);
  const interrupted = await openTestPool(t, relay.url);
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(id, { count: 2, idempotencyKey: "order-1" }));
  const { call, logged } = await startStandaloneApi(t, {
    db: interrupted,
    writer: {
      ...writer,
      write: async (...parameters) => {
        const written = await writer.write(...parameters);
        relay.cut();
        await eventually(async () => {
          const error = await readAccountSums(interrupted, id).catch((cause: unknown) => cause);
          return error instanceof UnavailableError;
        });
        return written;
      },
    },
  });

  const batch = { items: [{ count: 2, idempotency_key: "order-1" }, { count: 3 }] };
  const { status, headers, body } = await call("POST", "/plant/trees/batch", { key, body: batch });

  t.is(status, 500);
  t.is(headers.get("Retry-After"), null);
  t.deepEqual(body, { error: "internal server error" });
  t.is((await readAccountSums(db, id)).total, 5n);
  t.true(JSON.stringify(logged()).includes("ECONNREFUSED"));
  const replay = await call("POST", "/plant/trees", { key, body: batch.items[0] });
  isUnavailable(t, replay);
  t.is(replay.headers.get("Idempotent-Replayed"), null);
});

test("a refund that needs Stripe is a 503 without its key, and the log says so, not that there is an outage", async (t) => {
  const organization = { stripeCustomerId: "cus_1", stripeSubscriptionId: "sub_1" };
  const { post, logged } = await startApiOf(t, { organization });
  const { body } = await post("/plant/trees", { count: 1 });

  const { status, headers } = await post("/refund/trees", { id: idIn(body, "tree") });

  t.is(status, 503);
  t.is(headers.get("Retry-After"), "1");
  const error = logged().find((line) => line["level"] === 50);
  t.regex(String(error?.["reason"]), /STRIPE_SECRET_KEY is not set here/u);
});

test("slow reads of two accounts delay no short read of another, and wait for each other", async (t) => {
  const { db, databaseUrl } = t.context;
  const reads = await openReads({ DATABASE_URL: databaseUrl }, 60_000);
  t.teardown(() => reads.end());
  const { call, get, post } = await startApiOf(t, { reads });
  const [first, second] = [await createTestOrganization(db), await createTestOrganization(db)];
  const id = idIn((await post("/plant/trees", { count: 1 })).body, "tree");
  const lock = await lockTable(t, databaseUrl, "donation");

  let ended = 0;
  const slow = [first, first, first, second].map(({ apiKeyTest }) =>
    call("GET", "/stats?kind=donation", { key: apiKeyTest }).finally(() => {
      ended += 1;
    }),
  );
  await eventually(() => {
    const { acquiredConnections, waitingClients } = reads.state();
    return ended + acquiredConnections + waitingClients === slow.length;
  });
  for (const path of ["/events", `/usage/${id}`, `/evidence/tree/${id}`]) {
    t.is((await get(path)).status, 200, path);
  }

  t.is(await lock.countWaiting(), 3, "slow reads of both accounts have waited meanwhile");
  // They are not refused meanwhile.
  await delay(3100);
  await lock.release();
  for (const { status } of await Promise.all(slow)) {
    t.is(status, 200);
  }
});

type WatchOptions = Partial<Parameters<typeof watchHealth>[0]> & { readonly db?: DatabasePool };

/** Watches until the test ends, and serves what is read. */
const watch = async (t: DatabaseTest, { db = t.context.db, ...options }: WatchOptions) => {
  const health = await watchHealth({
    readDatabaseTime: async () => (await readServerStatus(db)).now,
    temporal: openTemporalClient({ address: TEMPORAL_ADDRESS }),
    clock: systemClock,
    logger: pino({ level: "silent" }),
    needsTemporal: false,
    ...options,
  });
  t.teardown(health.end);
  const api = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });
  return { ...health, call: api.call };
};

/** Polls as a probe does, because a check may exceed its two seconds on a busy machine. */
const pollReadiness = async (
  call: Call,
  status: number,
  expected: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, unknown>>> => {
  let response = await call("GET", "/readyz");
  await eventually(async () => {
    response = await call("GET", "/readyz");
    return response.status === status && isDeepStrictEqual(response.body, expected);
  });
  return response.body;
};

test("the service is ready without Temporal and reports it as unreachable; a worker is not", async (t) => {
  const temporal = await unreachableTemporal();
  const { call } = await watch(t, { temporal });
  const worker = await watch(t, { temporal, needsTemporal: true });

  const ready = { ...READY, temporal: "unreachable" };
  t.deepEqual(await pollReadiness(call, 200, ready), ready);
  t.is(worker.read().status, "unavailable");
});

const watchRelayed = async (t: DatabaseTest) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const health = await watch(t, { db: await openTestPool(t, relay.url, 1) });
  await pollReadiness(health.call, 200, READY);
  return { ...health, relay };
};

test("a process whose database is gone is alive and not ready", async (t) => {
  const { call, relay } = await watchRelayed(t);

  relay.cut();

  const down = { database: "unreachable", clock: "unknown" };
  const unavailable = { ...READY, status: "unavailable", ...down };
  t.deepEqual(await pollReadiness(call, 503, unavailable), unavailable);
  t.like(await call("GET", "/healthz"), { status: 200, body: { status: "ok" } });
});

test("readiness does not wait for a check that hangs", async (t) => {
  const { call, read, relay } = await watchRelayed(t);

  relay.freeze();

  // The next check gets no response. Until it fails, the state of the last one is reported.
  t.is(read().status, "ok");
  await eventually(async () => (await call("GET", "/readyz")).status === 503);
  // Otherwise closing the pool would wait for what it has sent.
  relay.cut();
});

test("a process that is stopping is alive and not ready", async (t) => {
  const { call, startStopping } = await watch(t, {});

  startStopping();

  t.like(await call("GET", "/readyz"), { status: 503, body: { status: "stopping" } });
  t.is((await call("GET", "/healthz")).status, 200);
});

test("the service is not ready while its clock is off, and logs each change once, whether or not the database responds", async (t) => {
  const logged: string[] = [];
  let aheadMs = 2 * 60 * 1000;
  let checks = 0;
  const { call } = await watch(t, {
    clock: {
      now: () => {
        checks += 1;
        return new Date(Date.now() + aheadMs);
      },
    },
    readDatabaseTime: async () => {
      if (checks === 2) {
        throw new Error("The database does not respond.");
      }
      return (await readServerStatus(t.context.db)).now;
    },
    logger: pino({ level: "info" }, { write: (line) => logged.push(line) }),
  });

  const off = { ...READY, status: "unavailable", clock: "off" };
  t.deepEqual(await pollReadiness(call, 503, off), off);
  await eventually(() => checks >= 3);
  t.is(logged.length, 1);
  t.regex(logged[0] ?? "", /clock differs from the database's by more than 2 s/u);

  aheadMs = 1000;
  t.deepEqual(await pollReadiness(call, 200, READY), READY);
  t.regex(logged[1] ?? "", /clock is right again/u);
});
