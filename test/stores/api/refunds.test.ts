import { hash } from "node:crypto";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import {
  changeTestBalance,
  createTestStore,
  rowsIn,
  startStoreApiOf,
  startTwoStoreApis,
} from "../startStoreApi.ts";
import { EIN, readStoreState } from "../storeState.ts";
import { readDonationTotals } from "../../../modules/charities/donationTotals.sql.ts";
import { readTotals } from "../../../modules/registrations/totals.sql.ts";
import { sql } from "../../../db/sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { refundDonations } from "../../../modules/charities/refundDonations.ts";
import { updateStore } from "../../../modules/stores/stores.sql.ts";
import { listNewestUnits } from "../../../modules/stores/storeRecords.sql.ts";
import { openPageCount } from "../../support/countPages.ts";
import { openDeadlockPool, runBehindLocks, whileOpen } from "../../support/lockWaits.ts";

const test = testWithDatabase();

test("the newest units are reversed first, across records, at the price that was paid and in the month of their registration", async (t) => {
  const clock = createMovableClock("2026-01-31T23:59:59.999Z");
  const stocked = { balanceCents: 1000 };
  const { db, get, post, store, state } = await startStoreApiOf(t, { store: stocked, clock });
  await post("/app/api/plastic", store.live, { bottles: 5 });
  clock.set("2026-02-01T00:00:00.000Z");
  await updateStore(db, store.id, { bottlePriceCents: 30 });
  await post("/app/api/plastic", store.live, { bottles: 3 });
  await updateStore(db, store.id, { bottlePriceCents: 1 });

  const refund = await post("/app/api/refund", store.live, { type: "plastic", quantity: 4 });

  t.deepEqual(refund.body, { status: "success", mode: "PROD", refunded_type: "plastic", count: 4 });
  t.false(refund.headers.has("Record-Id"), "it can refund several records");
  const { body } = await get("/app/api/plastic", store.live);
  const counts = rowsIn(body, "plastics").map(({ count, refunded_count: back }) => [count, back]);
  t.deepEqual(counts, [
    [3, 3],
    [5, 1],
  ]);
  t.is((await get("/app/api/impact/stats", store.live)).body["plastic_bottles"], 4);
  t.like(await state(), { balance: 960, remaining: 4, brokenLinks: 0 });
  const owner = { accountId: store.id, mode: "live", kind: "bottle" } as const;
  t.deepEqual(await readTotals(db, owner, new Date("2026-01-15T00:00:00Z")), { all: 4, month: 4 });
  t.deepEqual(await readTotals(db, owner, new Date("2026-02-15T00:00:00Z")), { all: 4, month: 0 });
});

test("a customer or an order limits the reversal to its units, and names match as a whole only", async (t) => {
  const { get, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const orders = [
    { trees: 1, customer_name: "Ann", customer_email: "ann@example.com", order_id: "#1" },
    { trees: 2, customer_name: "Joanna", customer_id: 12, order_id: "2" },
    { trees: 4, customer_name: "Ann", order_id: "3" },
  ];
  for (const order of orders) {
    await post("/app/api/plant", store.live, order);
  }
  for (const [body, status, left] of [
    [{ quantity: 6, customer_name: "ann" }, 400, [1, 2, 4]],
    [{ quantity: 1, customer_name: "an" }, 400, [1, 2, 4]],
    [{ quantity: 1, customer_name: "A%" }, 400, [1, 2, 4]],
    [{ quantity: 1, customer_name: "ANN" }, 200, [1, 2, 3]],
    [{ quantity: 1, order_id: "1" }, 200, [0, 2, 3]],
    [{ quantity: 1, order_id: "1" }, 400, [0, 2, 3]],
    [{ quantity: 1, customer_id: "12" }, 200, [0, 1, 3]],
    [{ quantity: 1, customer_name: "Joanna", order_id: "3" }, 400, [0, 1, 3]],
    [{ quantity: 4 }, 200, [0, 0, 0]],
  ] as const) {
    const response = await post("/app/api/refund", store.live, { type: "tree", ...body });
    t.is(response.status, status, JSON.stringify(body));
    const { body: list } = await get("/app/api/plant", store.live);
    const remaining = rowsIn(list, "trees").map(
      ({ count, refunded_count: back }) => Number(count) - Number(back),
    );
    t.deepEqual(remaining.toReversed(), left, JSON.stringify(body));
  }
  t.like(await state(), { balance: 1000, remaining: 0, totals: 0 });
});

test.serial("a reversal by a name that few or no records have reads no others", async (t) => {
  const { filler, vacuum, readAtMost } = await openPageCount(t, ["registration"]);
  const { id: accountId } = await createTestStore(t.context.db);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, customer_name, unit_price_cents)
    SELECT gen_random_uuid(), ${accountId}, 'live', 'tree', 1, now() - n * interval '1 second', md5(n::text), 50
    FROM generate_series(1, 20000) AS n
  `);
  await vacuum();
  const oldest = hash("md5", "20000");

  for (const [wholeName, count] of [
    [oldest.toUpperCase(), 1],
    ["Nobody", 0],
  ] as const) {
    const selection = { accountId, mode: "live", refunded: "tree", quantity: 1 } as const;
    const find = async (db: DatabasePool) => {
      const found = await listNewestUnits(db, [{ ...selection, filter: { wholeName } }]);
      return [...found.values()].flat().length;
    };
    t.is(await readAtMost(100, find, wholeName), count);
  }
});

test("a selector with bytes that are not UTF-8 is rejected, because it would also mean other customers", async (t) => {
  const { post, url, store, state } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const order = { customer_name: "M\ufffdller", order_id: "\ufffd1" };
  t.is((await post("/app/api/plant", store.live, { trees: 2, ...order })).status, 200);
  const before = await state();

  for (const selector of [{ customer_name: "Müller" }, { order_id: "Ä1" }]) {
    const { status } = await fetch(`${url}/app/api/refund`, {
      method: "POST",
      headers: { ...store.live, "Content-Type": "application/json" },
      body: Buffer.from(JSON.stringify({ type: "tree", quantity: 1, ...selector }), "latin1"),
    });
    t.is(status, 400);
  }
  t.deepEqual(await state(), before);
});

test("a reversal of more units than match is rejected and changes nothing", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.live, { trees: 2 });
  await post("/app/api/charity/donate", store.live, { charity_id: EIN, amount: 1 });
  const before = await state();

  for (const [type, quantity, left] of [
    ["tree", 3, "only 2 "],
    ["plastic", 1, "no matching unit remains .*a customer's name must match as a whole"],
    ["donation", 2, "only 1 "],
    ["tree", Number.MAX_SAFE_INTEGER, "only 2 "],
  ] as const) {
    const refused = await post("/app/api/refund", store.live, { type, quantity });
    t.like(refused, { status: 400, body: { code: "INVALID_PARAMETER" } });
    t.regex(String(refused.body["error"]), new RegExp(`^quantity: ${left}`, "u"));
  }
  t.deepEqual(await state(), before);
});

test("parallel partial reversals in two processes never reverse more units than there are", async (t) => {
  const { db } = t.context;
  const apiOf = await startTwoStoreApis(t, { db });
  const store = await createTestStore(db, { balanceCents: 500 });
  const plant = (trees: number) => apiOf(trees).post("/app/api/plant", store.live, { trees });
  await Promise.all([1, 2, 3, 4].map(plant));

  const refund = { type: "tree", quantity: 3 };
  const reverse = (index: number) => apiOf(index).post("/app/api/refund", store.live, refund);
  const responses = await Promise.all(Array.from({ length: 20 }, (_, index) => reverse(index)));

  t.is(responses.filter((response) => response.status === 200).length, 3);
  const left = { balance: 450, remaining: 1, totals: 1, brokenLinks: 0 };
  t.like(await readStoreState(db, store.id), left);
});

test("a reversal that would raise the balance beyond its maximum is rejected and changes nothing", async (t) => {
  const { db } = t.context;
  const { post, store } = await startStoreApiOf(t, {
    store: { balanceCents: 9e15, treePriceCents: MAXIMUM_CENTS },
  });
  await post("/app/api/plant", store.live, { trees: 80_000 });
  await changeTestBalance(db, store.id, 8e15);
  const before = await readStoreState(db, store.id);

  const refund = await post("/app/api/refund", store.live, { type: "tree", quantity: 80_000 });

  t.is(refund.status, 400);
  const error = "the balance is $90,000,000,000,800.00 and cannot exceed $90,071,992,547,409.91";
  t.deepEqual(refund.body, { error, code: "INVALID_PARAMETER" });
  t.deepEqual(await readStoreState(db, store.id), before);
});

test("the quantity of a donation reversal is a number of donations, newest first, and the money stays spent", async (t) => {
  const { get, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  for (const [amount, name] of [
    [1, "Ann"],
    [2, "Bob"],
    [4, "Ann"],
  ] as const) {
    const donation = { charity_id: EIN, amount, customer_name: name };
    t.is((await post("/app/api/charity/donate", store.live, donation)).status, 200);
  }
  const donated = async (query = "") =>
    (await get(`/app/api/impact/stats${query}`, store.live)).body["donations"];

  const ofBob = { type: "donation", quantity: 1, customer_name: "bob" };
  const refund = await post("/app/api/refund", store.live, ofBob);
  t.like(refund.body, { refunded_type: "donation", count: 1 });
  t.is(await donated(), 5);
  await post("/app/api/refund", store.live, { type: "donation", quantity: 1 });
  t.is(await donated(), 1);
  t.is(await donated("?customer=ann"), 1);
  t.is(await donated("?customer=bob"), 0);
  t.is((await state()).balance, 300);
});

test("a reversal of donations does not deadlock with an operator's refund", async (t) => {
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 }, db, clock });
  for (const time of ["2026-01-10T12:00:00Z", "2026-01-20T12:00:00Z", "2026-02-10T12:00:00Z"]) {
    clock.set(time);
    await post("/app/api/charity/donate", store.live, { charity_id: EIN, amount: 1 });
  }
  const oldest = await db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM donation WHERE account_id = ${store.id} ORDER BY created_at LIMIT 1
  `);
  const owner = { accountId: store.id, mode: "live", accountType: "store" } as const;
  const request = { id: oldest, reason: null, idempotencyKey: null, metadata: {} };

  // Both wait for the total.
  const [, reversal] = await runBehindLocks<[unknown, { readonly status: number }]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        SELECT FROM donor WHERE account_id = ${store.id} FOR UPDATE
      `),
    () => refundDonations({ db, clock }, owner, [request], true),
    () => post("/app/api/refund", store.live, { type: "donation", quantity: 2 }),
  );

  t.is(reversal.status, 200);
  t.deepEqual(deadlocks, []);
  t.deepEqual(await readDonationTotals(db, owner), { count: 0, amountCents: 0 });
});

test("a reversal of one unit waits for no other record, such as those that an order is created of", async (t) => {
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const { db, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 }, clock });
  await post("/app/api/plant", store.live, { trees: 1, order_id: "1" });
  clock.set("2026-01-11T12:00:00.000Z");
  await post("/app/api/plant", store.live, { trees: 1, order_id: "2" });

  const { status } = await whileOpen(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        SELECT FROM registration WHERE account_id = ${store.id} AND order_id = '1' FOR UPDATE
      `),
    // One that waited for the lock would fail by its time limit.
    () => post("/app/api/refund", store.live, { type: "tree", quantity: 1 }),
  );

  t.is(status, 200);
});
