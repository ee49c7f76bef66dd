import type { ExecutionContext } from "ava";
import { CheckIntegrityConstraintViolationError } from "slonik";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { nothing, sql } from "../../db/sql.ts";
import { requireAll } from "../../modules/records/batches.rules.ts";
import { runForAll, runForClient } from "../../runtime/client.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

const REFUSAL = invalidRequest("count: is more than what remains");

/** Opens a pool of one connection, and returns it with the process that serves that connection. */
const openSmallPool = async (t: ExecutionContext<DatabaseContext>) => {
  const db = await openTestPool(t, t.context.databaseUrl, 1);
  const readPid = (): Promise<number> =>
    db.oneFirst(sql.type(z.strictObject({ pid: z.int() }))`SELECT pg_backend_pid() AS pid`);
  return { db, readPid };
};

const rename = sql.type(nothing)`UPDATE account SET name = 'Renamed'`;

const listNames = (db: DatabasePool): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ name: z.string() }))`SELECT DISTINCT name FROM account`);

test("a transaction that a refusal rolls back leaves its connection to others", async (t) => {
  const { db, readPid } = await openSmallPool(t);
  const { name } = await createTestOrganization(t.context.db);
  const pid = await readPid();

  for (const refuse of [
    () => Promise.reject(REFUSAL),
    () => Promise.resolve(requireAll([REFUSAL])),
  ]) {
    await t.throwsAsync(
      db.transaction(async (transaction) => {
        await transaction.query(rename);
        await refuse();
      }),
    );
  }

  t.is(await readPid(), pid);
  t.deepEqual(await listNames(db), [name]);
});

test("a statement that violates a constraint leaves its connection to others", async (t) => {
  const { db, readPid } = await openSmallPool(t);
  await createTestOrganization(t.context.db);
  const pid = await readPid();
  const violate = sql.type(nothing)`UPDATE account SET billing_day = 0`;

  await t.throwsAsync(db.query(violate), { instanceOf: CheckIntegrityConstraintViolationError });
  await t.throwsAsync(
    db.transaction((transaction) => transaction.query(violate)),
    { instanceOf: CheckIntegrityConstraintViolationError },
  );

  t.is(await readPid(), pid);
});

test("a connection is closed after any other error", async (t) => {
  const { db, readPid } = await openSmallPool(t);
  const pid = await readPid();

  await t.throwsAsync(
    db.transaction(() => Promise.reject(new Error("A bug."))),
    { message: "A bug." },
  );

  t.not(await readPid(), pid);
});

test("a refusal in a transaction whose connection is gone does not keep it", async (t) => {
  const { db, readPid } = await openSmallPool(t);
  const pid = await readPid();

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

  t.not(await readPid(), pid);
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

test("a client with many queries leaves connections to another one", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 6);
  const gate = Promise.withResolvers<null>();
  const held = Array.from({ length: 10 }, () =>
    runForClient("busy", () => db.transaction(() => gate.promise)),
  );

  const found = await runForClient("other", () =>
    db.exists(sql.typeAlias("void")`SELECT FROM account`),
  );

  t.is(typeof found, "boolean");
  gate.resolve(null);
  await Promise.all(held);
});
