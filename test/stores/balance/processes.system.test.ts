import type { ExecutionContext } from "ava";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { awaitBlocked, awaitGone } from "../../support/lockWaits.ts";
import { startProgram } from "../../support/programs.ts";
import { createTestStore } from "../startStoreApi.ts";
import type { TestStore } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

/*
 * An API process is killed while its write is provably under way: the test holds a lock that the write waits for.
 */
const test = testWithDatabase();

const startApi = (t: ExecutionContext<DatabaseContext>) =>
  startProgram(t, "api/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    // The writes of stores do not need Temporal.
    TEMPORAL_ADDRESS: "127.0.0.1:1",
  });

type Response = {
  readonly status: number;
  readonly text: string;
  readonly replayed: boolean;
};

/** Plants one tree; null if the process ends before it responds. */
const plant = async (
  url: string | undefined,
  store: TestStore,
  key: string,
): Promise<Response | null> => {
  try {
    const response = await fetch(`${url}/app/api/plant`, {
      method: "POST",
      headers: { ...store.live, "Content-Type": "application/json", "Idempotency-Key": key },
      body: JSON.stringify({ trees: 1, order_id: key }),
    });
    return {
      status: response.status,
      text: await response.text(),
      replayed: response.headers.get("Idempotent-Replayed") === "true",
    };
  } catch {
    return null;
  }
};

const plantAll = (
  url: string | undefined,
  store: TestStore,
  keys: readonly string[],
): Promise<readonly (Response | null)[]> => Promise.all(keys.map((key) => plant(url, store, key)));

const keysFrom = (first: number, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `key-${first + index}`);

/**
 * Kills a process while one of its writes waits for a lock, and returns when the lock is released and the server has
 * noticed that the process is gone.
 */
const killInFlight = async <Result>(
  db: DatabasePool,
  {
    takeLock,
    startWrites,
    kill,
  }: {
    readonly takeLock: (transaction: DatabaseTransactionConnection) => Promise<unknown>;
    readonly startWrites: () => Promise<Result>;
    readonly kill: () => Promise<void>;
  },
): Promise<Result> => {
  const { writes, waiting } = await db.transaction(async (transaction) => {
    await takeLock(transaction);
    const started = startWrites();
    const pids = await awaitBlocked(transaction);
    await kill();
    return { writes: started, waiting: pids };
  });
  await awaitGone(db, waiting);
  return writes;
};

// Serial: the other test's trigger makes every commit of a registration wait.
test.serial(
  "a write whose process is killed before the commit is not recorded, and a repeat in another process writes it once",
  async (t) => {
    const { db } = t.context;
    const [victim, survivor] = [await startApi(t), await startApi(t)];
    const store = await createTestStore(db, { balanceCents: 10_000 });
    const [done, interrupted] = [keysFrom(0, 50), keysFrom(50, 250)];
    const first = await plantAll(victim.urls["store"], store, done);
    t.true(first.every((response) => response?.status === 200));

    const lost = await killInFlight(db, {
      takeLock: (transaction) =>
        transaction.query(sql.typeAlias("void")`
          SELECT
          FROM store
          WHERE account_id = ${store.id}
          FOR UPDATE
        `),
      startWrites: () => plantAll(victim.urls["store"], store, interrupted),
      kill: victim.kill,
    });

    t.true(lost.every((response) => response === null));
    t.like(await readStoreState(db, store.id), {
      balance: 7500,
      registrations: 50,
      remaining: 50,
      totals: 50,
      responses: 50,
      entries: 51,
      brokenLinks: 0,
    });

    const repeated = await plantAll(survivor.urls["store"], store, done);
    t.true(repeated.every((response) => response?.replayed));
    t.deepEqual(
      repeated.map((response) => response?.text),
      first.map((response) => response?.text),
    );
    const retried = await plantAll(survivor.urls["store"], store, interrupted);
    // 10,000 cents are 200 trees.
    t.is(retried.filter((response) => response?.status === 200).length, 150);
    t.is(retried.filter((response) => response?.status === 402).length, 100);
    t.false(retried.some((response) => response?.replayed));
    t.like(await readStoreState(db, store.id), {
      balance: 0,
      registrations: 200,
      remaining: 200,
      totals: 200,
      responses: 200,
      entries: 201,
      brokenLinks: 0,
    });
  },
);

test.serial(
  "a write whose process is killed during the commit is recorded, and a repeat in another process gets its response",
  async (t) => {
    const { db, owner } = t.context;
    const [victim, survivor] = [await startApi(t), await startApi(t)];
    const store = await createTestStore(db, { balanceCents: 10_000 });
    // Deferred, so that a commit waits for the lock that the test holds.
    await owner.query(sql.typeAlias("void")`
      CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_advisory_xact_lock_shared(1);
        RETURN NULL;
      END
      $$
    `);
    await owner.query(sql.typeAlias("void")`
      CREATE CONSTRAINT TRIGGER wait_for_test
      AFTER INSERT ON registration
      DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION wait_for_test()
    `);
    t.teardown(() => owner.query(sql.typeAlias("void")`DROP FUNCTION wait_for_test CASCADE`));
    const keys = keysFrom(0, 50);

    const lost = await killInFlight(db, {
      takeLock: (transaction) =>
        transaction.query(sql.typeAlias("void")`SELECT
          FROM pg_advisory_xact_lock(1)
        `),
      startWrites: () => plantAll(victim.urls["store"], store, keys),
      kill: victim.kill,
    });

    t.true(lost.every((response) => response === null));
    const { registrations } = await readStoreState(db, store.id);
    t.true(registrations > 0);
    t.like(await readStoreState(db, store.id), {
      balance: 10_000 - 50 * registrations,
      remaining: registrations,
      totals: registrations,
      responses: registrations,
      entries: 1 + registrations,
      brokenLinks: 0,
    });

    const repeated = await plantAll(survivor.urls["store"], store, keys);
    t.true(repeated.every((response) => response?.status === 200));
    t.is(repeated.filter((response) => response?.replayed).length, registrations);
    t.like(await readStoreState(db, store.id), {
      balance: 7500,
      registrations: 50,
      remaining: 50,
      totals: 50,
      responses: 50,
      entries: 51,
      brokenLinks: 0,
    });
  },
);
