import { AsyncLocalStorage } from "node:async_hooks";
import type { ExecutionContext } from "ava";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { listCreditedTrees, lockClaims } from "../../../modules/planting/claims.sql.ts";
import { sql } from "../../../db/sql.ts";
import type { Credited } from "../../../modules/planting/partner.ts";
import { claimTrees } from "../../../modules/planting/claimTrees.ts";
import { countReads } from "../../support/countReads.ts";
import { stopAutovacuum } from "../../support/countPages.ts";
import { asOwner, copyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { planting, startTreeMapperPlanting } from "./startTreeMapperPlanting.ts";

const test = testWithDatabase();

/** Lists the claims of orders with the transactions that wrote them. */
const listRows = (db: CommonQueryMethods, orderIds: readonly number[]) =>
  db.any(sql.type(
    z.strictObject({ reference: z.string(), trees: z.bigint(), writtenBy: z.string() }),
  )`
    SELECT reference, trees, xmin::text AS "writtenBy"
    FROM planting_claim
    WHERE order_id = ANY(${sql.array(orderIds, "int4")})
    ORDER BY reference, order_id
  `);

/** Lists the records whose stored sum is not that of their claims. */
const listWrongSums = (db: CommonQueryMethods) =>
  db.anyFirst(sql.type(z.strictObject({ reference: z.string() }))`
    SELECT reference
    FROM planting_record
    FULL JOIN (
      SELECT partner, reference, sum(trees) AS trees FROM planting_claim GROUP BY partner, reference
    ) AS claimed USING (partner, reference)
    WHERE credited IS DISTINCT FROM coalesce(trees, 0)
  `);

/** Counts the connections that wait for the lock of claims. */
const countWaiting = (db: CommonQueryMethods): Promise<bigint> =>
  db.oneFirst(sql.type(z.strictObject({ waiting: z.bigint() }))`
    SELECT count(*) AS waiting
    FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
  `);

/**
 * Runs work while another process holds the lock of the claims, until it is done or this many connections wait for the
 * lock. Returns whether it is done.
 */
const runWhileLocked = async (
  db: DatabasePool,
  work: () => Promise<unknown>,
  waitingConnections: number,
): Promise<boolean> => {
  // Slonik rejects other connections within a transaction.
  const outside = AsyncLocalStorage.snapshot();
  const { done, running } = await db.transaction(async (transaction) => {
    await lockClaims(transaction, "treemapper");
    let isDone = false;
    const started = outside(async () => {
      await work();
      isDone = true;
    });
    await eventually(async () => isDone || (await countWaiting(transaction)) >= waitingConnections);
    return { done: isDone, running: started };
  });
  await running;
  return done;
};

test.serial("a poll that changes no claims waits for no other", async (t) => {
  const { db } = t.context;
  const { state, setup, order, poll, pollNow } = await startTreeMapperPlanting(t);
  const older = await order(100);
  setup.clock.set("2026-07-03T10:00:00.000Z");
  const newer = await order(100);
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("taken", "2026-07-05", [60])];
  t.false((await poll(newer)).isFinished);

  for (const id of [newer, older]) {
    t.true(await runWhileLocked(db, () => poll(id), 1));
  }

  // It does not wait for a poll of its own process that changes claims, either.
  state.interventions = [...state.interventions, planting("early", "2026-07-02", [5])];
  const changing: Promise<unknown>[] = [];
  const pollBeside = async (): Promise<void> => {
    changing.push(poll(older));
    await eventually(async () => (await countWaiting(db)) > 0n);
    await pollNow(newer);
  };
  t.true(await runWhileLocked(db, pollBeside, 2));
  await Promise.all(changing);
  const claims = await listRows(db, [older, newer]);
  t.deepEqual(
    claims.map(({ reference, trees }) => [reference, trees]),
    [
      ["early", 5n],
      ["taken", 60n],
    ],
  );
});

test.serial("polls that wait for each other hold one connection", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 2);
  const { state, setup, order, pollNow } = await startTreeMapperPlanting(t, { db });
  const ids = [await order(10), await order(10), await order(10)];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("enough", "2026-07-05", [30])];
  let polls: readonly Promise<{ readonly isFinished: boolean }>[] = [];
  const useOtherConnection = async (): Promise<void> => {
    polls = ids.map(pollNow);
    // Enough turns for all polls to get to their claims.
    for (let turn = 0; turn < 100; turn += 1) {
      await db.query(sql.typeAlias("void")`SELECT`);
    }
  };

  t.true(await runWhileLocked(t.context.db, useOtherConnection, 2));

  for (const { isFinished } of await Promise.all(polls)) {
    t.true(isFinished);
  }
  const claims = await listRows(t.context.db, ids);
  t.deepEqual(
    claims.map(({ reference, trees }) => [reference, trees]),
    ids.map(() => ["enough", 10n]),
  );
});

test.serial("claims of several processes credit no tree to two orders", async (t) => {
  const { order } = await startTreeMapperPlanting(t);
  const ids = [await order(70), await order(70)];
  const records = [{ reference: "contested", trees: 100 }];
  const claims = await runBehindLocks<readonly Credited[]>(
    t.context.db,
    (transaction) => lockClaims(transaction, "treemapper"),
    ...ids.map(
      (id) => () =>
        claimTrees(
          t.context,
          { id, partner: "treemapper", treeCount: 70 },
          () => records,
          (change) => change(),
        ),
    ),
  );
  t.deepEqual(
    claims.map(({ after }) => after.map(({ trees }) => trees)),
    [[70], [30]],
  );
  t.deepEqual(await listWrongSums(t.context.db), []);
});

test.serial(
  "an order gets only the trees that another process has left since the download",
  async (t) => {
    const { db } = t.context;
    const [here, elsewhere] = [await startTreeMapperPlanting(t), await startTreeMapperPlanting(t)];
    const [first, last] = [await here.order(10), await here.order(70)];
    const between = await elsewhere.order(70);
    for (const { state, setup } of [here, elsewhere]) {
      setup.clock.set("2026-07-10T10:00:00.000Z");
      state.interventions = [planting("divided", "2026-07-05", [100])];
    }
    t.true((await here.poll(first)).isFinished);
    t.true((await elsewhere.poll(between)).isFinished);
    t.false((await here.pollNow(last)).isFinished);
    t.deepEqual(
      (await listRows(db, [first, last, between])).map(({ trees }) => trees),
      [10n, 20n, 70n],
    );
    t.deepEqual(await listWrongSums(db), []);
  },
);

test.serial("a poll writes only the claims that it changes", async (t) => {
  const { state, setup, order, poll } = await startTreeMapperPlanting(t);
  const id = await order(100);
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [
    planting("deleted", "2026-07-03", [1]),
    planting("grown", "2026-07-04", [2]),
    planting("same", "2026-07-05", [3]),
  ];
  await poll(id);
  const before = await listRows(t.context.db, [id]);
  await poll(id);
  t.deepEqual(await listRows(t.context.db, [id]), before);

  state.interventions = [
    planting("grown", "2026-07-04", [4]),
    planting("same", "2026-07-05", [3]),
    planting("unclaimed", "2026-07-06", [5]),
  ];
  await poll(id);
  const after = await listRows(t.context.db, [id]);
  t.deepEqual(
    after.map(({ reference, trees }) => [reference, trees]),
    [
      ["grown", 4n],
      ["same", 3n],
      ["unclaimed", 5n],
    ],
  );
  t.deepEqual(after[1], before[2]);
  t.deepEqual(await listWrongSums(t.context.db), []);
});

test.serial("a poll that another one of its order overtakes gives up no trees", async (t) => {
  const { db } = t.context;
  const { state, setup, partner, order, poll, pollNow } = await startTreeMapperPlanting(t);
  const [first, second] = [await order(70), await order(70)];
  state.interventions = [
    planting("near", "2026-07-05", [100]),
    planting("far", "2026-07-06", [60]),
  ];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  t.true((await poll(first)).isFinished);
  const placed = (await setup.orders()).find(({ id }) => id === second);
  if (!placed) {
    throw new Error("There is an order.");
  }

  await partner.fetchUpdates(
    { ...placed, reached: [] },
    {
      now: setup.clock.now(),
      signal: new AbortController().signal,
      claims: {
        listCredited: (references) => listCreditedTrees(db, "treemapper", references),
        claimTrees: async (choose, inTurn) => {
          t.true((await pollNow(second)).isFinished);
          return claimTrees({ db }, placed, choose, inTurn);
        },
      },
    },
  );

  t.deepEqual(
    (await listRows(db, [first, second])).map(({ reference, trees }) => [reference, trees]),
    [
      ["far", 40n],
      ["near", 70n],
      ["near", 30n],
    ],
  );
  t.deepEqual(await listWrongSums(db), []);
});

/** The tables that hold what is credited. */
const CLAIM_TABLES = ["planting_claim", "planting_record"];
/** The others that the test changes: while autovacuum analyzes one, old versions of all rows stay. */
const OTHER_TABLES = ["registration", "usage_fact", "impact_total", "planting_order"];

/** Counts what polls of an order that lacks trees read, when some other orders have trees of the same record. */
const readsBeside = async (t: ExecutionContext<DatabaseContext>, others: number) => {
  const databaseUrl = await copyDatabase(t);
  const owner = await openTestPool(t, asOwner(databaseUrl), 1);
  await stopAutovacuum(owner, [...CLAIM_TABLES, ...OTHER_TABLES]);
  const db = await openTestPool(t, databaseUrl, 1);

  const { state, setup, order, poll, pollNow } = await startTreeMapperPlanting(t, { db });
  await setup.order(...Array.from({ length: others }, () => 1));
  for (const { id } of await setup.orders()) {
    const records = [{ reference: "shared", trees: 1000 }];
    await claimTrees(
      { db },
      { id, partner: "treemapper", treeCount: 1 },
      () => records,
      (change) => change(),
    );
  }
  const [waiting, late] = [await order(5000), await order(5000)];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("shared", "2026-07-05", [1000])];
  const claiming = await countReads(db, CLAIM_TABLES, () => poll(waiting));
  const again = await countReads(db, CLAIM_TABLES, () => poll(waiting));
  const without = await countReads(db, CLAIM_TABLES, () => pollNow(late));
  t.deepEqual(
    (await listRows(db, [waiting, late])).map(({ trees }) => trees),
    [BigInt(1000 - others)],
  );
  return { claiming, again, without };
};

test.serial(
  "a poll reads no more rows and pages, however many orders share a record",
  async (t) => {
    const few = await readsBeside(t, 2);
    const many = await readsBeside(t, 200);
    for (const poll of ["claiming", "again", "without"] as const) {
      t.is(many[poll].rows, few[poll].rows, poll);
      t.true(many[poll].pages <= few[poll].pages + 2, `${poll}: ${many[poll].pages} pages`);
    }
  },
);
