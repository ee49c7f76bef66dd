import type { ExecutionContext } from "ava";
import { CheckIntegrityConstraintViolationError } from "slonik";
import type { DatabasePool, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { nothing, sql } from "../../db/sql.ts";
import { requireAll } from "../../modules/records/batches.rules.ts";
import { runForAll, runForClient } from "../../runtime/client.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { isContentError } from "../../db/databaseErrors.ts";
import { joinCalls } from "../../db/batching/joinCalls.ts";

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

test("calls of the same time are written together, each with its own result", async (t) => {
  const groups: (readonly number[])[] = [];
  const double = joinCalls(async (items: readonly number[]) => {
    groups.push(items);
    return items.map((item) => item * 2);
  });

  t.deepEqual(await Promise.all([double(1), double(2), double(3)]), [2, 4, 6]);
  t.is(await double(4), 8);
  t.deepEqual(groups, [[1, 2, 3], [4]]);
});

test("an item whose content is rejected fails alone", async (t) => {
  const write = joinCalls(async (items: readonly string[]) => {
    if (items.includes("bad")) {
      throw invalidRequest("bad content");
    }
    return items;
  });

  const results = await Promise.allSettled([write("one"), write("bad"), write("two")]);

  t.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
});

test("any other error fails all items of its group and none of the next", async (t) => {
  let fails = true;
  const write = joinCalls(async (items: readonly number[]) => {
    if (fails) {
      throw new Error("the connection was lost");
    }
    return items;
  });

  const results = await Promise.allSettled([write(1), write(2)]);
  t.true(results.every(({ status }) => status === "rejected"));
  fails = false;
  t.is(await write(3), 3);
});

test("a group has at most 500 items", async (t) => {
  const sizes: number[] = [];
  const write = joinCalls(async (items: readonly number[]) => {
    sizes.push(items.length);
    return items;
  });

  await Promise.all(Array.from({ length: 1100 }, (_, index) => write(index)));

  t.deepEqual(sizes, [500, 500, 100]);
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
