import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { listClaims, listCreditedTrees } from "../../../modules/planting/claims.sql.ts";
import { findPlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { claimTrees } from "../../../modules/planting/claimTrees.ts";
import { testWithDatabase } from "../../support/database.ts";
import { planting, startTreeMapperPlanting } from "./startTreeMapperPlanting.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;

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
          claimTrees: () => Promise.resolve({ before: [], after: [] }),
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

test.serial("a poll considers only the records that its order may need", async (t) => {
  const { db } = t.context;
  const { state, setup, partner, order, pollNow } = await startTreeMapperPlanting(t);
  const ids = [await order(1), await order(3)];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = recordsOf("considered", 5000);
  t.true((await pollNow(ids[0] ?? 0)).isFinished);
  const placed = await findPlantingOrder(db, ids[1] ?? 0);
  t.assert(placed);
  const considered: number[] = [];

  const { facts } = placed
    ? await partner.fetchUpdates(
        { ...placed, reached: [] },
        {
          now: setup.clock.now(),
          signal: NEVER,
          claims: {
            listCredited: (references) => {
              considered.push(references.length);
              return listCreditedTrees(db, "treemapper", references);
            },
            claimTrees: (choose, inTurn) => {
              const chooseCounted: typeof choose = (own) => {
                const records = choose(own);
                considered.push(records.length);
                return records;
              };
              return claimTrees({ db }, placed, chooseCounted, inTurn);
            },
          },
        },
      )
    : { facts: [] };

  t.is(facts.length, 2);
  // Before the lock, and under it.
  t.deepEqual(considered, [6, 6]);
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
