import type { ExecutionContext } from "ava";
import { BackendTerminatedError } from "slonik";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { createConnect } from "../../db/connections/connect.ts";
import { UnavailableError } from "../../runtime/errors.rules.ts";
import { openPool } from "../../db/pools/pool.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { startRelay } from "../support/relay.ts";

const test = testWithDatabase();

/** Long enough for every other statement of these tests on a busy machine. */
const RESPONSE_TIMEOUT_MS = 5000;

/** The response timeout, the time that the pool gives a connection to close, and reserve for a busy machine. */
const BOUND_MS = RESPONSE_TIMEOUT_MS + 5000 + 10_000;

const openRelayedPool = async (t: ExecutionContext<DatabaseContext>) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url, 1, 60_000, { responseTimeoutMs: RESPONSE_TIMEOUT_MS });
  t.teardown(() => db.end());
  return { db, freeze: relay.freeze, freezeAfter: relay.freezeAfter };
};

const readPid = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ pid: z.int() }))`SELECT pg_backend_pid() AS pid`);

const failsInTime = async (t: ExecutionContext, work: Promise<unknown>): Promise<void> => {
  const startedAtMs = performance.now();
  await t.throwsAsync(work, { instanceOf: BackendTerminatedError });
  t.true(performance.now() - startedAtMs < BOUND_MS);
};

test("a batch fails when its database vanishes, and the next is written over a new connection", async (t) => {
  const { db, freeze } = await openRelayedPool(t);
  const { id: accountId } = await createTestOrganization(t.context.db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const register = () => writer.register(registrationOf(accountId));
  await register();

  freeze();
  const hanging = register();
  await failsInTime(t, hanging);
  await register();

  t.is((await readAccountSums(t.context.db, accountId)).registrations, 2);
});

test("a transaction fails when its database vanishes during a statement, and its connection is not reused", async (t) => {
  const { db, freezeAfter } = await openRelayedPool(t);
  let usedPid = 0;
  freezeAfter("pg_sleep");
  const working = db.transaction(async (transaction) => {
    usedPid = await readPid(transaction);
    await transaction.query(sql.typeAlias("void")`SELECT FROM pg_sleep(0)`);
    t.fail("The response arrived.");
  });
  await failsInTime(t, working);

  t.not(await readPid(db), usedPid);
});

test("a key is found again after the database vanished during its lookup", async (t) => {
  const { db, freeze } = await openRelayedPool(t);
  const { apiKeyTest: key } = await createTestOrganization(t.context.db);
  const clock = { nowMs: 1 };
  const authenticate = createAuthenticator({
    db,
    nowMs: () => clock.nowMs,
  });
  t.truthy(await authenticate(key));
  // The cached key expires.
  clock.nowMs += 60_000;

  freeze();
  await failsInTime(t, Promise.all([authenticate(key), authenticate(key)]));

  t.truthy(await authenticate(key));
});

test("if no connection can be opened, work that waits for one is rejected, too", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url, 2);
  t.teardown(() => db.end());
  relay.cut();

  const results = await Promise.allSettled(Array.from({ length: 7 }, () => readPid(db)));

  t.true(
    results.every(
      (result) => result.status === "rejected" && result.reason instanceof UnavailableError,
    ),
  );
});

const startTwoServers = async (t: ExecutionContext<DatabaseContext>) => {
  const { databaseUrl } = t.context;
  const [first, second] = [await startRelay(t, databaseUrl), await startRelay(t, databaseUrl)];
  const url = databaseUrl.replace(
    new URL(databaseUrl).host,
    [first, second].map((relay) => new URL(relay.url).host).join(","),
  );
  return { first, second, url };
};

test("a server that vanishes when asked whether it accepts writes is passed over for the next one", async (t) => {
  const { first, second, url } = await startTwoServers(t);
  const db = await openPool(url, 1);
  t.teardown(() => db.end());

  first.freezeAfter("transaction_read_only");
  t.true((await db.connect(readPid)) > 0);
  t.true(second.connectionCount() > 0);

  first.freezeAfter("transaction_read_only");
  const { client, server } = await createConnect(url)({ connectionTimeoutMillis: 15_000 });
  await client.end();
  t.is(server.name, new URL(second.url).host);
});
