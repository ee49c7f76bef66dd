import type { ExecutionContext } from "ava";
import { BackendTerminatedError } from "slonik";
import type { CommonQueryMethods, DatabasePool, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { createConnect } from "../../db/connections/connect.ts";
import { openPool } from "../../db/pools/pool.ts";
import { nothing, sql } from "../../db/sql.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { requireAll } from "../../modules/records/batches.rules.ts";
import { runForAll, runForClient } from "../../runtime/client.ts";
import { invalidRequest, UnavailableError } from "../../runtime/errors.rules.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";
import { isContentError } from "../../db/databaseErrors.ts";

const test = testWithDatabase();

const REFUSAL = invalidRequest("count: is more than what remains");

const readPid = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ pid: z.int() }))`SELECT pg_backend_pid() AS pid`);

const openSmallPool = (t: DatabaseTest): Promise<DatabasePool> =>
  openTestPool(t, t.context.databaseUrl, 1);

const violate = (connection: CommonQueryMethods): Promise<unknown> =>
  connection.query(sql.type(nothing)`UPDATE account SET billing_day = 0`);

const rename = sql.type(nothing)`UPDATE account SET name = 'Renamed'`;

const listNames = (db: DatabasePool): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ name: z.string() }))`SELECT DISTINCT name FROM account`);

test("a refusal, or a statement that violates a constraint, leaves its connection to others", async (t) => {
  const db = await openSmallPool(t);
  const { name } = await createTestOrganization(t.context.db);
  const pid = await readPid(db);

  await t.throwsAsync(violate(db), { code: "23514" });
  for (const [refuse, expected] of [
    [() => Promise.reject(REFUSAL), { name: "DomainError" }],
    [() => Promise.resolve(requireAll([REFUSAL])), { name: "BatchRejectedError" }],
    [violate, { code: "23514" }],
  ] as const) {
    await t.throwsAsync(
      db.transaction(async (transaction) => {
        await transaction.query(rename);
        await refuse(transaction);
      }),
      expected,
    );
  }

  t.is(await readPid(db), pid);
  t.deepEqual(await listNames(db), [name]);
});

test("a connection is closed after any other error", async (t) => {
  const db = await openSmallPool(t);
  const pid = await readPid(db);

  const failed = db.transaction(() => Promise.reject(new Error("A bug.")));
  await t.throwsAsync(failed, { message: "A bug." });

  t.not(await readPid(db), pid);
});

test("a refusal in a transaction whose connection is gone does not keep it", async (t) => {
  const db = await openSmallPool(t);
  const pid = await readPid(db);

  await t.throwsAsync(
    db.transaction(async () => {
      await t.context.db.query(
        sql.type(z.strictObject({ terminated: z.literal(true) }))`
          SELECT pg_terminate_backend(${pid}, 5000) AS terminated
        `,
      );
      throw REFUSAL;
    }),
  );

  t.not(await readPid(db), pid);
});

test("the pool has a connection for the service while clients wait for theirs", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 3);
  const gate = Promise.withResolvers<null>();
  const held = Array.from({ length: 10 }, (_, index) =>
    runForClient(`account-${index}`, () => db.transaction(() => gate.promise)),
  );

  // Also if a client's request has caused it.
  const found = await runForClient("another", () =>
    runForAll(() => db.exists(sql.typeAlias("void")`SELECT FROM account`)),
  );

  t.is(typeof found, "boolean");
  // The connection of the service is returned a moment after its result.
  await eventually(() => db.state().acquiredConnections === 2);
  t.is(db.state().waitingClients, 8);
  gate.resolve(null);
  await Promise.all(held);
  t.is(db.state().waitingClients, 0);
});

const CONTENT_ERRORS: Readonly<Record<string, FragmentSqlToken>> = {
  "a sum beyond the range of its type": sql.fragment`SELECT 9223372036854775807 + 1`,
  "a malformed value": sql.fragment`SELECT 'x'::integer`,
  "a division by zero": sql.fragment`SELECT 1 / 0`,
  "a duplicate key": sql.fragment`INSERT INTO deployment DEFAULT VALUES`,
};

for (const [title, statement] of Object.entries(CONTENT_ERRORS)) {
  test(`${title} is an error of the content`, async (t) => {
    const error = await t.throwsAsync(t.context.owner.query(sql.typeAlias("void")`${statement}`));
    t.true(isContentError(error), `${error.name}: ${error.message}`);
  });
}

test("a statement that is wrong, or takes too long, is no error of the content", async (t) => {
  const { owner } = t.context;
  const wrong = await t.throwsAsync(owner.query(sql.typeAlias("void")`SELECT nothing`));
  const slow = await t.throwsAsync(
    owner.transaction(async (transaction) => {
      await transaction.query(sql.typeAlias("void")`SET LOCAL statement_timeout = 50`);
      await transaction.query(sql.typeAlias("void")`SELECT pg_sleep(60)`);
    }),
  );

  t.false(isContentError(wrong), wrong.message);
  t.false(isContentError(slow), slow.message);
  t.true(isContentError(invalidRequest("wrong")));
});

/** Long enough for every other statement of these tests on a busy machine. */
const RESPONSE_TIMEOUT_MS = 5000;

/** The response timeout, the time that the pool gives a connection to close, and reserve for a busy machine. */
const BOUND_MS = RESPONSE_TIMEOUT_MS + 5000 + 10_000;

const openRelayedPool = async (t: DatabaseTest) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url, 1, 60_000, { responseTimeoutMs: RESPONSE_TIMEOUT_MS });
  t.teardown(() => db.end());
  return { db, freeze: relay.freeze, freezeAfter: relay.freezeAfter };
};

const failsInTime = async (t: ExecutionContext, work: Promise<unknown>): Promise<void> => {
  const startedAtMs = performance.now();
  await t.throwsAsync(work, { instanceOf: BackendTerminatedError });
  t.true(performance.now() - startedAtMs < BOUND_MS);
};

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
  let nowMs = 1;
  const authenticate = createAuthenticator({ db, nowMs: () => nowMs });
  t.truthy(await authenticate(key));
  // The cached key expires.
  nowMs += 60_000;

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

  const reasons = results.map((result) => result.status === "rejected" && result.reason);
  t.true(reasons.every((reason) => reason instanceof UnavailableError));
});

const startTwoServers = async (t: DatabaseTest) => {
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
