import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../domain/accounts/audit.ts";
import { systemClock } from "../../../domain/clock.ts";
import { adjustBalance } from "../../../services/stores/balance/adjustBalance.ts";
import { topUpStore } from "../../../services/stores/balance/topUpStore.ts";
import { updateStore } from "../../../services/stores/updateStore.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestStore, startStoreApi, startTwoStoreApis } from "../startStoreApi.ts";
import { insertTestCharity } from "../storeState.ts";

const test = testWithDatabase();

const EIN = "530196605";
test.beforeEach((t) => insertTestCharity(t.context.db, EIN));

const eventRow = z.strictObject({
  type: z.string(),
  mode: z.string(),
  data: z.record(z.string(), z.unknown()),
});

/** Creates a store where a tree costs 50 cents, with what the tests do to its balance. */
const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  given: { readonly balanceCents: number; readonly lowBalanceCents: number },
) => {
  const { db } = t.context;
  const store = await createTestStore(db, given);
  const operator = { db, clock: systemClock, actor: SERVICE };
  return {
    store,
    topUp: (amountCents: number) =>
      topUpStore(operator, {
        storeId: store.id,
        amountCents,
        reference: crypto.randomUUID(),
        note: "",
      }),
    adjust: (amountCents: number) =>
      adjustBalance(operator, { storeId: store.id, amountCents, reason: "test" }),
    setThreshold: (lowBalanceCents: number) => updateStore(operator, store.id, { lowBalanceCents }),
    /** The store's events so far, each with the amounts that it names. */
    events: async () => {
      const rows = await db.any(sql.type(eventRow)`
        SELECT type, mode, data
        FROM event
        WHERE account_id = ${store.id}
        ORDER BY transaction_id, id
      `);
      t.true(rows.every(({ mode, data }) => mode === "live" && data["currency"] === "USD"));
      t.true(rows.every(({ data }) => data["shop_domain"] === store.domain));
      return rows.map(({ type, data }) => [
        type,
        data["balance_cents"],
        data["threshold_cents"] ?? data["needed_cents"],
      ]);
    },
  };
};

test("a balance that passes below its threshold is reported once, and again after it was above", async (t) => {
  const { post } = await startStoreApi(t, t.context);
  const { store, topUp, events } = await setUp(t, { balanceCents: 300, lowBalanceCents: 200 });
  const plant = (trees: number) => post("/app/api/plant", store.live, { trees });

  await plant(2);
  t.deepEqual(await events(), [], "200 is not below 200");
  await plant(1);
  await plant(1);
  t.deepEqual(await events(), [["balance.low", 150, 200]]);
  await topUp(50);
  await plant(1);
  t.deepEqual(await events(), [["balance.low", 150, 200]], "the balance was low all the time");
  await topUp(100);
  await post("/app/api/charity/donate", store.live, { charity_id: EIN, amount_dollars: 1.5 });
  t.deepEqual(await events(), [
    ["balance.low", 150, 200],
    ["balance.low", 50, 200],
  ]);
});

test("a rejected write is reported once until the balance rises, and leaves nothing else", async (t) => {
  const { post } = await startStoreApi(t, t.context);
  const { store, topUp, events } = await setUp(t, { balanceCents: 60, lowBalanceCents: 0 });
  const plant = (trees: number) => post("/app/api/plant", store.live, { trees });
  const donate = (amount: number) =>
    post("/app/api/charity/donate", store.live, { charity_id: EIN, amount_dollars: amount });

  t.is((await plant(2)).status, 402);
  t.is((await plant(3)).status, 402);
  t.is((await donate(1)).status, 402);
  t.is((await plant(1)).status, 200);
  t.is((await plant(1)).status, 402);
  t.deepEqual(await events(), [["balance.depleted", 60, 100]]);
  await topUp(20);
  t.is((await donate(0.31)).status, 402);
  t.is((await plant(1)).status, 402);
  t.deepEqual(await events(), [
    ["balance.depleted", 60, 100],
    ["balance.depleted", 30, 31],
  ]);
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  t.is((await plant(2)).status, 402);
  t.deepEqual((await events()).at(-1), ["balance.depleted", 80, 100]);
});

test("test keys spend nothing and report nothing", async (t) => {
  const { post } = await startStoreApi(t, t.context);
  const { store, events } = await setUp(t, { balanceCents: 10, lowBalanceCents: 5 });

  t.is((await post("/app/api/plant", store.test, { trees: 100 })).status, 200);
  const donation = { charity_id: EIN, amount_dollars: 5 };
  t.is((await post("/app/api/charity/donate", store.test, donation)).status, 200);
  t.deepEqual(await events(), []);
});

test("an operator's adjustment and a higher threshold report a low balance", async (t) => {
  const { adjust, setThreshold, events } = await setUp(t, {
    balanceCents: 500,
    lowBalanceCents: 300,
  });

  await adjust(-100);
  t.deepEqual(await events(), []);
  await adjust(-150);
  t.deepEqual(await events(), [["balance.low", 250, 300]]);
  await setThreshold(400);
  t.is((await events()).length, 1, "it was low before");
  await setThreshold(100);
  await setThreshold(251);
  t.deepEqual((await events()).at(-1), ["balance.low", 250, 251]);
});

test("64 parallel writes in two processes report each crossing once", async (t) => {
  const { db } = t.context;
  const apiOf = await startTwoStoreApis(t, { db });
  const { store, events } = await setUp(t, { balanceCents: 1000, lowBalanceCents: 500 });

  const responses = await Promise.all(
    Array.from({ length: 64 }, (_, index) =>
      index % 8 === 7
        ? apiOf(index).post("/app/api/charity/donate", store.live, {
            charity_id: EIN,
            amount_dollars: 0.5,
          })
        : apiOf(index).post("/app/api/plant", store.live, { trees: 1 }),
    ),
  );

  t.is(responses.filter(({ status }) => status === 200).length, 20);
  const [low, depleted, ...others] = await events();
  t.is(low?.[0], "balance.low");
  t.true(Number(low?.[1]) <= 450, "writes that were recorded together may have made it lower");
  t.deepEqual(depleted, ["balance.depleted", 0, 50]);
  t.deepEqual(others, []);
});
