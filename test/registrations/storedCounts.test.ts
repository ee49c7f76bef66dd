import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../domain/accounts/limits.ts";
import type { Clock } from "../../domain/clock.ts";
import type { SpendingGuard } from "../../services/registrations/limits/createSpendingGuard.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestGuard, createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

/** Registers units, and returns whether the limits allow them. */
const register = (
  guard: SpendingGuard,
  accountId: string,
  count: number,
  mode: Mode = "live",
): Promise<boolean> =>
  guard
    .register(
      { accountId, mode, limits: null },
      { field: "count", count },
      {
        idempotencyKey: null,
        write: () => Promise.resolve({ replayed: false }),
        findOriginal: () => Promise.resolve(null),
      },
    )
    .then(
      () => true,
      () => false,
    );

/** Registers a batch of records of one unit each, and returns how many the limits allow. */
const registerBatch = async (
  guard: SpendingGuard,
  accountId: string,
  size: number,
  mode: Mode = "live",
): Promise<number> => {
  const items = Array.from({ length: size }, (_, index) => ({
    index,
    count: 1,
    idempotencyKey: null,
  }));
  const { newRecords } = await guard.writeBatch({ accountId, mode, limits: null }, items, {
    findKnownKeys: () => Promise.resolve(new Set<string>()),
    write: (rejections) =>
      Promise.resolve({ newRecords: size - rejections.size, newUnits: size - rejections.size }),
  });
  return newRecords;
};

const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  limits: Partial<AccountLimits>,
  options: { readonly db?: DatabasePool; readonly clock?: Clock } = {},
) => {
  const { id } = await createTestOrganization(t.context.db);
  return {
    id,
    startProcess: async () => {
      const guard = createTestGuard(t, { db: t.context.db, ...options, limits });
      // From here on, counts are stored when the test says so.
      await guard.stop();
      return guard;
    },
  };
};

test("a day's limit also holds after a restart", async (t) => {
  const { id, startProcess } = await setUp(t, { countPerDay: 10 });
  const before = await startProcess();
  t.true(await register(before, id, 8));
  await before.stop();

  t.deepEqual(
    await Promise.all([1, 2, 3].map(async (count) => register(await startProcess(), id, count))),
    [true, true, false],
  );
  const restarted = await startProcess();
  t.false(await register(restarted, id, 3));
  t.true(await register(restarted, id, 2));
  t.false(await register(restarted, id, 1));
  t.is(await registerBatch(await startProcess(), id, 5), 2);
});

test("requests that are the first after a restart do not pass a day's limit together", async (t) => {
  const { id, startProcess } = await setUp(t, { countPerDay: 10 });
  const before = await startProcess();
  await register(before, id, 6);
  await before.stop();

  const restarted = await startProcess();
  const results = await Promise.all(Array.from({ length: 10 }, () => register(restarted, id, 2)));

  t.is(results.filter(Boolean).length, 2);
});

test("a process in which an account was idle knows what others have stored", async (t) => {
  const { id, startProcess } = await setUp(t, { countPerDay: 10 });
  const one = await startProcess();
  const other = await startProcess();
  t.true(await register(other, id, 1));
  await other.store();
  t.true(await register(one, id, 8));
  await one.store();
  await other.store();

  t.false(await register(other, id, 2));
  t.true(await register(other, id, 1));
});

test("the count of a day that has ended is not compared with the limit", async (t) => {
  const clock = createMovableClock("2025-06-01T23:59:59.999Z");
  const { id, startProcess } = await setUp(t, { countPerDay: 10 }, { clock });
  const one = await startProcess();
  const other = await startProcess();
  t.true(await register(one, id, 10));
  await one.store();
  t.false(await register(other, id, 1));

  clock.set("2025-06-02T00:00:00.000Z");
  t.true(await register(one, id, 7));
  await one.store();
  t.false(await register(other, id, 4));
  t.true(await register(other, id, 3));
});

test("a request that reads a count while the day ends is compared with the next day's", async (t) => {
  const clock = createMovableClock("2025-06-02T00:00:00.000Z");
  const { id, startProcess } = await setUp(t, { countPerDay: 10 }, { clock });
  const before = await startProcess();
  await register(before, id, 10);
  await before.stop();
  const guard = await startProcess();
  clock.set("2025-06-01T23:59:59.999Z");

  const result = register(guard, id, 1);
  clock.set("2025-06-02T00:00:00.000Z");

  t.false(await result);
});

test("accounts that wait for their counts share a statement, and those without a limit do not wait", async (t) => {
  const statements: string[] = [];
  const db = await openTestPool(t, t.context.databaseUrl, 4, {
    interceptors: [
      {
        name: "note-statements",
        beforeQueryExecution: (_context, query) => {
          statements.push(query.sql);
          return null;
        },
      },
    ],
  });
  const limited = await setUp(t, { countPerDay: 10 }, { db });
  const unlimited = await setUp(t, {}, { db });
  let begun = 0;
  const registerAll = async (guard: SpendingGuard, accountIds: readonly string[]) => {
    begun = 0;
    const results = accountIds.map((accountId) =>
      guard.register(
        { accountId, mode: "live", limits: null },
        { field: "count", count: 1 },
        {
          idempotencyKey: null,
          write: () => {
            begun += 1;
            return Promise.resolve({ replayed: true });
          },
          findOriginal: () => Promise.resolve(null),
        },
      ),
    );
    const begunImmediately = begun;
    await Promise.all(results);
    return begunImmediately;
  };
  const accountIds = Array.from({ length: 20 }, () => crypto.randomUUID());
  const guard = await limited.startProcess();

  t.is(await registerAll(guard, accountIds), 0);
  t.is(statements.length, 1);
  t.is(await registerAll(guard, accountIds), 20, "the counts are known");
  t.is(await registerAll(await unlimited.startProcess(), accountIds), 20);
  t.is(statements.length, 1);
});

test("the limit of test data also holds after a restart", async (t) => {
  const { id, startProcess } = await setUp(t, { testRecords: 5 });
  const before = await startProcess();
  t.is(await registerBatch(before, id, 4, "test"), 4);
  await before.stop();

  const restarted = await startProcess();
  const results = await Promise.all(
    Array.from({ length: 5 }, () => register(restarted, id, 1, "test")),
  );
  t.is(results.filter(Boolean).length, 1);
  t.is(await registerBatch(await startProcess(), id, 4, "test"), 1);
});
