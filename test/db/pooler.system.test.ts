import { StatementTimeoutError } from "slonik";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { migrate } from "../../db/migrate.ts";
import { openPool } from "../../db/pools/pool.ts";
import { sql } from "../../db/sql.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { readPgBouncerVersion, startPgBouncer } from "../support/startPgBouncer.ts";

/* Behind PgBouncer each transaction, and each single statement, may run on another connection of the server. */

const test = testWithDatabase();

const NAMED = sql.prepared("pooler_test", z.strictObject({ number: z.int() }))`SELECT 1 AS number`;
const NAMED_TOO = sql.prepared(
  "pooler_test_too",
  z.strictObject({ number: z.int() }),
)`SELECT 2 AS number`;

const { canPrepare } = readPgBouncerVersion();

const sleepOneSecond = (db: DatabasePool) =>
  db.query(sql.typeAlias("void")`SELECT FROM pg_sleep(1)`);

const readTimeout = (db: Pick<DatabasePool, "oneFirst">): Promise<string> =>
  db.oneFirst(sql.type(z.strictObject({ statement_timeout: z.string() }))`SHOW statement_timeout`);

test("many sessions share few connections, whether or not the pooler keeps named statements", async (t) => {
  const { url } = await startPgBouncer(t, t.context.databaseUrl, {
    default_pool_size: 2,
    ...(canPrepare ? { max_prepared_statements: 0 } : {}),
  });
  const db = await openTestPool(t, url, 8);
  await Promise.all(
    Array.from({ length: 40 }, async (_, index) => {
      t.deepEqual(await db.one(NAMED), { number: 1 });
      await db.transaction(async (transaction) => {
        t.deepEqual(await transaction.one(NAMED), { number: 1 });
        t.deepEqual(await transaction.one(NAMED_TOO), { number: 2 });
        t.is(
          await transaction.oneFirst(
            sql.type(z.strictObject({ index: z.int() }))`SELECT ${index}::integer AS index`,
          ),
          index,
        );
      });
    }),
  );
});

test("named statements are used if the pooler keeps them", async (t) => {
  const { databaseUrl } = t.context;
  const { url } = await startPgBouncer(
    t,
    databaseUrl,
    canPrepare ? { max_prepared_statements: 50 } : {},
  );
  const db = await openTestPool(t, url, 4);
  await Promise.all(Array.from({ length: 40 }, () => db.one(NAMED)));
  const isNamed = await db.transaction(async (transaction) => {
    await transaction.one(NAMED);
    // Those of the connection of the server that the transaction has.
    return transaction.exists(sql.typeAlias("void")`
      SELECT FROM pg_prepared_statements WHERE statement = 'SELECT 1 AS number'
    `);
  });
  t.true(isNamed || !canPrepare);
});

test("a named statement is executed after a migration changed the type of its result", async (t) => {
  const { owner, databaseUrl } = t.context;
  await owner.query(sql.typeAlias("void")`CREATE TABLE pooler_test (text text)`);
  const { url } = await startPgBouncer(t, databaseUrl, {
    default_pool_size: 1,
    ...(canPrepare ? { max_prepared_statements: 50 } : {}),
  });
  const [first, second] = [await openTestPool(t, url, 1), await openTestPool(t, url, 1)];
  const named = sql.prepared("pooler_test_text", z.strictObject({ text: z.string() }))`
    SELECT text FROM pooler_test
  `;
  await first.any(named);
  await owner.query(sql.typeAlias("void")`
    ALTER TABLE pooler_test ALTER COLUMN text TYPE varchar(10)
  `);
  t.deepEqual(await first.any(named), []);
  t.deepEqual(await second.transaction((transaction) => transaction.any(named)), []);
});

test.serial("each pool has its own timeouts, which no other session inherits", async (t) => {
  const { url } = await startPgBouncer(t, t.context.databaseUrl, { default_pool_size: 1 });
  const impatient = await openTestPool(t, url, 1, { statementTimeoutMs: 200 });
  const patient = await openTestPool(t, url, 1, { statementTimeoutMs: 30_000 });

  await t.throwsAsync(sleepOneSecond(impatient), { instanceOf: StatementTimeoutError });
  await t.throwsAsync(
    impatient.transaction((transaction) =>
      transaction.query(sql.typeAlias("void")`SELECT FROM pg_sleep(1)`),
    ),
    { instanceOf: StatementTimeoutError },
  );
  await t.notThrowsAsync(sleepOneSecond(patient));
  t.is(await readTimeout(patient), "30s");
  t.is(await readTimeout(impatient), "200ms");
});

test.serial("timeouts of the role or the database are used", async (t) => {
  const { databaseUrl, owner } = t.context;
  const database = sql.identifier([new URL(databaseUrl).pathname.slice(1)]);
  await owner.query(sql.typeAlias("void")`
    ALTER DATABASE ${database} SET statement_timeout = '20s'
  `);
  await owner.query(sql.typeAlias("void")`
    ALTER DATABASE ${database} SET idle_in_transaction_session_timeout = '50s'
  `);
  const { url } = await startPgBouncer(t, databaseUrl);
  const db = await openTestPool(t, url, 2, { statementTimeoutMs: 30_000 });
  t.is(await readTimeout(db), "20s");
  t.is(await db.transaction(readTimeout), "20s");
});

test("a pooler without transactions is refused", async (t) => {
  const { url } = await startPgBouncer(t, t.context.databaseUrl, { pool_mode: "statement" });
  await t.throwsAsync(openPool(url), {
    message: "the pooler accepts no transactions: set pool_mode = transaction in pgbouncer.ini",
  });
});

test("a refused start-up parameter is named", async (t) => {
  const { url } = await startPgBouncer(t, t.context.databaseUrl);
  await t.throwsAsync(openPool(`${url}?options=-c%20work_mem%3D8MB`), {
    message:
      /the pooler refuses the start-up parameter (?:options|work_mem): remove it from the URL, or add it to ignore_startup_parameters/u,
  });
});

test("session mode works like transaction mode", async (t) => {
  const { url } = await startPgBouncer(t, t.context.databaseUrl, { pool_mode: "session" });
  const db = await openTestPool(t, url, 4);
  t.deepEqual(await db.transaction((transaction) => transaction.one(NAMED)), { number: 1 });
});

test("migrations are refused behind a pooler", async (t) => {
  const { url } = await startPgBouncer(t, t.context.ownerUrl);
  await t.throwsAsync(migrate(url), {
    message: /Set DATABASE_OWNER_URL to the server's own address\./u,
  });
});
