import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import {
  listClaims,
  listCreditedTrees,
  lockClaims,
  replaceClaims,
} from "../../../modules/planting/claims.sql.ts";
import { sql } from "../../../db/sql.ts";
import { claimTrees } from "../../../modules/planting/claimTrees.ts";
import { openTestPool, testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { planting, startTreeMapperPlanting } from "./startTreeMapperPlanting.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;

/** Lists the claims of orders. */
const listRows = (db: CommonQueryMethods, orderIds: readonly number[]) =>
  db.any(sql.type(z.strictObject({ reference: z.string(), trees: z.bigint() }))`
    SELECT reference, trees
    FROM planting_claim
    WHERE order_id = ANY(${sql.array(orderIds, "int4")})
    ORDER BY reference, order_id
  `);

/** Counts the connections that wait for the lock of claims. */
const countWaiting = (db: CommonQueryMethods): Promise<bigint> =>
  db.oneFirst(sql.type(z.strictObject({ waiting: z.bigint() }))`
    SELECT count(*) AS waiting
    FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
  `);

test.serial("polls that wait for each other hold one connection", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 2);
  const { state, setup, order, pollNow } = await startTreeMapperPlanting(t, { db });
  const ids = [await order(10), await order(10), await order(10)];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("enough", "2026-07-05", [30])];
  // Slonik rejects other connections within a transaction.
  const outside = AsyncLocalStorage.snapshot();
  const { polls } = await t.context.db.transaction(async (transaction) => {
    await lockClaims(transaction, "treemapper");
    const started = outside(() => ids.map(pollNow));
    await eventually(async () => (await countWaiting(transaction)) === 1n);
    // Enough turns for all polls to get to their claims.
    for (let turn = 0; turn < 100; turn += 1) {
      await outside(() => db.query(sql.typeAlias("void")`SELECT`));
    }
    t.is(await countWaiting(transaction), 1n);
    return { polls: started };
  });

  for (const { isFinished } of await Promise.all(polls)) {
    t.true(isFinished);
  }
  t.deepEqual(
    await listRows(t.context.db, ids),
    ids.map(() => ({ reference: "enough", trees: 10n })),
  );
});

test.serial("claims of several processes credit no tree to two orders", async (t) => {
  const { db } = t.context;
  const { order } = await startTreeMapperPlanting(t);
  const [elsewhere, here] = [await order(70), await order(70)];
  const [claimed] = await runBehindLocks<readonly Awaited<ReturnType<typeof claimTrees>>[]>(
    db,
    async (transaction) => {
      await lockClaims(transaction, "treemapper");
      const claims = [{ reference: "contested", trees: 70 }];
      await replaceClaims(transaction, "treemapper", elsewhere, claims);
    },
    () =>
      claimTrees(
        t.context,
        { id: here, partner: "treemapper", treeCount: 70 },
        () => [{ reference: "contested", trees: 100 }],
        NEVER,
      ),
  );
  t.deepEqual(claimed, [{ reference: "contested", trees: 30 }]);
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
      signal: NEVER,
      claims: {
        listCredited: (references) => listCreditedTrees(db, "treemapper", references),
        claimTrees: async (choose) => {
          t.true((await pollNow(second)).isFinished);
          return claimTrees({ db }, placed, choose, NEVER);
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
});

/** Records of one tree each. */
const recordsOf = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => planting(`${name}-${index}`, "2026-07-05", [1]));

test.serial("other work gets its turn after every 500 records that are read", async (t) => {
  const { state, setup, partner, order } = await startTreeMapperPlanting(t);
  await order(1);
  state.interventions = recordsOf("read", 5000);
  let turns = 0;
  let counter = setImmediate(function count() {
    turns += 1;
    counter = setImmediate(count);
  });
  // A response has arrived completely.
  const startCounting = (): void => {
    turns = 0;
  };
  subscribe("undici:request:trailers", startCounting);
  t.teardown(() => {
    clearImmediate(counter);
    unsubscribe("undici:request:trailers", startCounting);
  });
  const turnsOfReading: number[] = [];
  for (const placed of await setup.orders()) {
    await partner.fetchUpdates(
      { ...placed, reached: [] },
      {
        now: new Date("2026-07-10T10:00:00.000Z"),
        signal: NEVER,
        claims: {
          claimTrees: () => Promise.resolve([]),
          listCredited: () => {
            turnsOfReading.push(turns);
            return Promise.resolve([]);
          },
        },
      },
    );
  }
  // The records are parsed, and then located.
  t.true((turnsOfReading[0] ?? 0) >= 2 * 9, turnsOfReading.join(", "));
});

test.serial("an order gets its trees although other processes have taken older ones", async (t) => {
  const [here, elsewhere] = [await startTreeMapperPlanting(t), await startTreeMapperPlanting(t)];
  const [first, last] = [await here.order(1), await here.order(2)];
  const between = await elsewhere.order(50);
  for (const { state, setup } of [here, elsewhere]) {
    setup.clock.set("2026-07-10T10:00:00.000Z");
    state.interventions = recordsOf("taken", 100);
  }
  t.true((await here.poll(first)).isFinished);
  t.true((await elsewhere.poll(between)).isFinished);

  t.true((await here.pollNow(last)).isFinished);

  t.deepEqual(await listClaims(t.context.db, last), [
    { reference: "taken-51", trees: 1 },
    { reference: "taken-52", trees: 1 },
  ]);
});
