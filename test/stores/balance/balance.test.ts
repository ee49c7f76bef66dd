import { changeLockedBalance, lockBalance } from "../../../modules/stores/changeBalance.ts";
import { sql } from "../../../db/sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import { awaitBlocked } from "../../support/lockWaits.ts";
import {
  changeTestBalance,
  createTestStore,
  rowsIn,
  startStoreApiOf,
  startTwoStoreApis,
} from "../startStoreApi.ts";
import { EIN, listBalanceEvents, readStoreState } from "../storeState.ts";

const test = testWithDatabase();

const WRITES = [
  { path: "/app/api/plant", body: { trees: 1 }, cents: 50 },
  { path: "/app/api/plant", body: { trees: 2 }, cents: 100 },
  { path: "/app/api/plastic", body: { bottles: 3 }, cents: 30 },
  { path: "/app/api/charity/donate", body: { charity_id: EIN, amount_dollars: 0.37 }, cents: 37 },
] as const;

test("64 parallel writes of four kinds in two processes never overspend, the ledger adds up, and each crossing is reported once", async (t) => {
  const { db } = t.context;
  const apiOf = await startTwoStoreApis(t, { db });
  const store = await createTestStore(db, { balanceCents: 1000, lowBalanceCents: 500 });

  const responses = await Promise.all(
    Array.from({ length: 64 }, async (_, index) => {
      const { path, body, cents } = WRITES[index % WRITES.length] ?? WRITES[0];
      const { status, body: response } = await apiOf(index).post(path, store.live, body);
      return { status, code: response["code"], cents };
    }),
  );

  const spent = responses.reduce((sum, { status, cents }) => sum + (status === 200 ? cents : 0), 0);
  t.true(responses.every(({ status, code }) => status === 200 || code === "INSUFFICIENT_BUDGET"));
  t.true(responses.some(({ status }) => status === 402));
  t.true(spent <= 1000);
  const state = await readStoreState(db, store.id);
  t.like(state, { balance: 1000 - spent, entrySum: 1000 - spent, lastBalance: 1000 - spent });
  t.is(state.brokenLinks, 0);
  // Every rejected write costs more than what is left.
  t.true(state.balance < 100);
  const events = await listBalanceEvents(db, store.id);
  const types = events.map(({ type }) => type);
  t.deepEqual(types, ["balance.low", "balance.depleted"]);
  t.true(events.every(({ data }) => data.balance_cents < 500));
});

test("test keys spend nothing, need no balance and do not see live records", async (t) => {
  const { db, get, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 50 } });

  t.is((await post("/app/api/plant", store.test, { trees: 100 })).status, 200);
  const donation = { charity_id: EIN, amount: 5 };
  t.is((await post("/app/api/charity/donate", store.test, donation)).status, 200);
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);

  t.like(await state(), { balance: 0, entries: 2 });
  t.like((await get("/app/api/impact/stats", store.test)).body, { trees: 100, donations: 5 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 1, donations: 0 });
  t.like((await get("/app/api/plant", store.live)).body, { count: 1 });
  const { body: ofTest } = await get("/app/api/balance", store.test);
  t.like(ofTest, { key_mode: "TEST", balance_cents: null, entries: [] });
  t.is((await post("/app/api/refund", store.test, { type: "tree", quantity: 100 })).status, 200);
  t.is((await state()).balance, 0);
  t.deepEqual(await listBalanceEvents(db, store.id), []);
});

test("the balance comes with prices, threshold and pages of the ledger, newest first", async (t) => {
  const stocked = { balanceCents: 300, lowBalanceCents: 200 };
  const { db, url, get, post, store } = await startStoreApiOf(t, { store: stocked });
  await post("/app/api/plant", store.live, { trees: 1 });
  await post("/app/api/plastic", store.live, { bottles: 3 });
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1, reason: "cancelled" });

  const first = await get("/app/api/balance?limit=2", store.live);
  t.like(first.body, {
    balance_cents: 270,
    low_balance: false,
    low_balance_threshold_cents: 200,
    prices: { tree_cents: 50, bottle_cents: 10 },
    has_more: true,
  });
  const cursor = String(first.body["next_cursor"]);
  const second = await get(`/app/api/balance?limit=2&cursor=${cursor}`, store.live);
  t.like(second.body, { has_more: false, next_cursor: "" });
  const entries = [first, second].flatMap(({ body }) => rowsIn(body, "entries"));
  t.like(entries, [
    { kind: "refund", amount_cents: 50, balance_cents: 270, note: "cancelled", reference: null },
    { kind: "bottle", amount_cents: -30, balance_cents: 220 },
    { kind: "tree", amount_cents: -50, balance_cents: 250 },
    { kind: "topup", amount_cents: 300, balance_cents: 300 },
  ]);
  await changeTestBalance(db, store.id, 1, { reference: "invoice-1" });
  const headers = { ...store.live, Accept: "text/csv" };
  const csv = await (await fetch(`${url}/app/api/balance`, { headers })).text();
  t.regex(csv, /^id,.*,reference,note,created_at\r\n\d+,topup,1,271,.*,invoice-1,test,/u);
  await post("/app/api/plant", store.live, { trees: 2 });
  t.true((await get("/app/api/verify", store.live)).body["low_balance"]);
  t.true((await get("/app/api/balance", store.live)).body["low_balance"]);
});

// Serial, because the writes of other tests would wait for the table as well.
test.serial("the balance is the newest entry's, also if it changes during the reads", async (t) => {
  const { owner } = t.context;
  const low = { balanceCents: 500, lowBalanceCents: 600 };
  const { get, store } = await startStoreApiOf(t, { store: low });

  const isLocked = Promise.withResolvers<void>();
  const topUp = owner.transaction(async (transaction) => {
    const locked = await lockBalance(transaction, store.id);
    await transaction.query(sql.typeAlias("void")`LOCK TABLE balance_entry`);
    isLocked.resolve();
    await awaitBlocked(transaction);
    const createdAt = new Date().toISOString();
    const entry = { kind: "topup", amountCents: 200, note: "", createdAt } as const;
    await changeLockedBalance(transaction, locked, entry, new Date());
  });
  await isLocked.promise;
  const { body } = await get("/app/api/balance", store.live);
  await topUp;

  t.like(body, { balance_cents: 700, low_balance: false });
  t.is(rowsIn(body, "entries")[0]?.["balance_cents"], 700);
});

test("concurrent top-ups with one reference add its amount once", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const topUp = (amountCents: number) =>
    changeTestBalance(db, store.id, amountCents, { reference: "invoice-1" });

  const done = await Promise.all(Array.from({ length: 20 }, () => topUp(700)));

  t.is(done.filter(({ replayed }) => !replayed).length, 1);
  t.like(await readStoreState(db, store.id), { balance: 700, entries: 1 });
  const message = /already used for an entry of \$7\.00 \(topup\)/u;
  await t.throwsAsync(topUp(701), { instanceOf: DomainError, message });
});

test("an adjustment cannot make the balance negative or exceed the safe integers", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db, { balanceCents: 100 });
  const change = (kind: "topup" | "adjustment", amountCents: number) =>
    changeTestBalance(db, store.id, amountCents, { kind });

  await t.throwsAsync(change("adjustment", -101), { instanceOf: DomainError });
  t.like(await change("adjustment", -100), { balanceCents: 0 });
  const most = Number.MAX_SAFE_INTEGER;
  t.like(await change("adjustment", most), { balanceCents: most });
  await t.throwsAsync(change("adjustment", 1), { instanceOf: DomainError });
  await t.throwsAsync(change("topup", 1), { instanceOf: DomainError });
  t.like(await readStoreState(db, store.id), { balance: Number.MAX_SAFE_INTEGER, entries: 3 });
});

test("the database rejects changed entries, negative top-ups and negative balances, also from the owner", async (t) => {
  const { db, owner } = t.context;
  const store = await createTestStore(db, { balanceCents: 100 });

  const before = await readStoreState(db, store.id);
  const ofStore = sql.fragment`WHERE account_id = ${store.id}`;
  const isFixed = /balance entries cannot be changed/u;
  for (const [statement, reason] of [
    [sql.typeAlias("void")`UPDATE balance_entry SET amount_cents = 1 ${ofStore}`, isFixed],
    [sql.typeAlias("void")`DELETE FROM balance_entry ${ofStore}`, isFixed],
    [
      sql.typeAlias("void")`
        INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, created_at)
        VALUES (${store.id}, 'topup', -1, 99, now())
      `,
      /balance_entry_topup/u,
    ],
    [sql.typeAlias("void")`UPDATE store SET balance_cents = -1 ${ofStore}`, /store_balance_safe/u],
  ] as const) {
    const error = await t.throwsAsync(owner.query(statement));
    const cause = error?.cause instanceof Error ? error.cause.message : "";
    t.regex(`${error?.message} ${cause}`, reason);
  }
  t.deepEqual(await readStoreState(db, store.id), before);
});

test("no balance covers the largest count, and the refusal names both amounts exactly", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, {
    store: { balanceCents: Number.MAX_SAFE_INTEGER, bottlePriceCents: 7 },
  });
  const bottles = Number.MAX_SAFE_INTEGER;

  t.like(await post("/app/api/plastic", store.live, { bottles }), {
    status: 402,
    body: {
      error:
        "top-up balance exhausted: $630,503,947,831,869.37 needed, $90,071,992,547,409.91 left",
    },
  });
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);
  t.is((await state()).balance, Number.MAX_SAFE_INTEGER - 50);
});

test("a store's registrations have no usage facts; a price of 0 makes no ledger entry", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, { store: { treePriceCents: 0 } });

  t.is((await post("/app/api/plant", store.live, { trees: 7 })).status, 200);
  t.is((await post("/app/api/refund", store.live, { type: "tree", quantity: 2 })).status, 200);

  t.like(await state(), { facts: 0, entries: 0, balance: 0, remaining: 5, totals: 5 });
});
