import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { createTestStore, startStoreApiOf, startTwoStoreApis } from "../startStoreApi.ts";
import type { TestStore } from "../startStoreApi.ts";
import { EIN, readStoreState } from "../storeState.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { listPlantingOrders } from "../../../modules/planting/orders.sql.ts";
import { listBalanceEntries } from "../../../modules/stores/balances.sql.ts";
import { createStoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { lockRows } from "../../support/lockWaits.ts";
import type {
  StoreRefundWrite,
  StoreRegistrationWrite,
  StoreResponse,
} from "../../../modules/stores/storeWrites.rules.ts";

const test = testWithDatabase().serial;

const COMMON = { mode: "live", idempotency: null, responseBody: "response" } as const;

/** A write that plants trees, one by default. */
const plantingOf = (
  accountId: string,
  {
    key,
    requestHash = "ab".repeat(32),
    ...given
  }: Partial<StoreRegistrationWrite> & {
    readonly key?: string;
    readonly requestHash?: string;
  } = {},
): StoreRegistrationWrite => ({
  ...COMMON,
  accountId,
  operation: "plant",
  kind: "tree",
  count: 1,
  recordId: crypto.randomUUID(),
  isLimited: false,
  customerName: null,
  customerEmail: null,
  customerId: null,
  orderId: null,
  notes: null,
  ...given,
  idempotency: key === undefined ? null : { key, requestHash },
});

/** A write that refunds a store's newest trees. */
const refundOf = (accountId: string, quantity: number): StoreRefundWrite => ({
  ...COMMON,
  accountId,
  operation: "refund",
  recordId: null,
  refunded: "tree",
  quantity,
  filter: {},
  reason: null,
});

/** A process that writes for stores. */
const stageWrites = ({ context: { db } }: DatabaseTest) => {
  const writer = createStoreWriter({ db, clock: systemClock });
  return {
    db,
    writer,
    plant: ({ id }: TestStore, given: Parameters<typeof plantingOf>[1] = {}) =>
      writer.write(plantingOf(id, given)),
  };
};

const RECORDS = 10_000;
const ORDERS = 4;

/** Inserts orders of a store, and its registrations in them. */
const fillOrders = async (db: DatabasePool, accountId: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO planting_order (
      public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, site_shares, created_at
    )
    SELECT
      ${accountId} || n, ${accountId}::uuid, 'live', 'simulated', '', '', 'allocations', ${RECORDS / ORDERS}, '[]', now()
    FROM generate_series(1, ${ORDERS}) AS n
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, unit_price_cents, planting_order_id, tree_order_id, ordered_count
    )
    SELECT
      gen_random_uuid(), ${accountId}::uuid, 'live', 'tree', 1, now() - n * interval '1 second', 1,
      (SELECT min(id) FROM planting_order WHERE account_id = ${accountId}::uuid) + n % ${ORDERS},
      nextval('tree_order_id'), 1
    FROM generate_series(1, ${RECORDS}) AS n
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT ${accountId}::uuid, 'live', 'tree', period, ${RECORDS}
    FROM (
      SELECT 'all' AS period
      UNION
      SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') FROM registration WHERE account_id = ${accountId}::uuid
    ) AS span
  `);
};

const countLockWaits = (db: DatabasePool, relation: string): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ count: z.int() }))`
    SELECT count(*)::integer AS count
    FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE ${`%${relation}%`}
  `);

/** Returns whether each write was recorded now, replayed or rejected, and why. */
const describeAll = async (writes: readonly Promise<StoreResponse>[]): Promise<readonly string[]> =>
  (await Promise.allSettled(writes)).map((settled) =>
    settled.status === "fulfilled"
      ? settled.value.replayed
        ? "replayed"
        : "recorded"
      : settled.reason instanceof DomainError
        ? settled.reason.code
        : String(settled.reason),
  );

test("while a store refunds 10,000 ordered trees, twenty others plant in two processes, and its own writes wait apart", async (t) => {
  const { db } = t.context;
  const apiOf = await startTwoStoreApis(t, { db });
  const busy = await createTestStore(db, { balanceCents: 10_000 });
  const others = await Promise.all(
    Array.from({ length: 20 }, () => createTestStore(db, { balanceCents: 10_000 })),
  );
  await fillOrders(db, busy.id);
  const plant = (index: number, headers: Readonly<Record<string, string>>) =>
    apiOf(index).post("/app/api/plant", headers, { trees: 1 });
  const release = await lockRows(t, t.context.databaseUrl, "planting_order", "account_id", busy.id);

  const done: string[] = [];
  const refund = apiOf(0)
    .post("/app/api/refund", busy.live, { type: "tree", quantity: RECORDS })
    .finally(() => done.push("refund"));
  // The refund now holds the balance's lock, and stays in the middle of its transaction.
  await eventually(async () => (await countLockWaits(db, "planting_order")) > 0);
  const own = Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      plant(index, busy.live).finally(() => done.push("own")),
    ),
  );
  // Those of the other process wait for the balance's lock, and those of the same process for the refund.
  await eventually(async () => (await countLockWaits(db, "store")) > 0);
  for (let round = 0; round < 3; round += 1) {
    const responses = await Promise.all(others.map(({ live }, index) => plant(index, live)));
    t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  }
  t.deepEqual(done, [], "nobody waited for the refund, or for its own writes");

  await release();
  t.is((await refund).status, 200);
  t.deepEqual([...new Set((await own).map(({ status }) => status))], [200]);
  const orders = await listPlantingOrders(db, { accountId: busy.id, limit: ORDERS });
  const refunded = orders.map(({ refundedCount }) => refundedCount);
  t.deepEqual(
    refunded,
    Array.from({ length: ORDERS }, () => RECORDS / ORDERS),
  );
  const balance = 10_000 + RECORDS - 30 * 50;
  t.like(await readStoreState(db, busy.id), { balance, remaining: 30, brokenLinks: 0 });
});

test("a locked store's writes are done in their order once the lock is free", async (t) => {
  const { db, writer, plant } = stageWrites(t);
  const store = await createTestStore(db, { balanceCents: 10_000 });
  const release = await lockRows(t, t.context.databaseUrl, "store", "account_id", store.id);

  const repeated = plantingOf(store.id, { count: 2, key: "a" });
  const writes = [
    plant(store, { count: 1 }),
    writer.write(repeated),
    writer.write(refundOf(store.id, 3)),
    plant(store, { count: 4 }),
    plant(store, { count: 1000 }),
    writer.write(refundOf(store.id, 5)),
    writer.write(repeated),
    plant(store, { count: 6 }),
  ];
  await eventually(async () => (await countLockWaits(db, "store")) > 0);
  await release();

  const settled = await Promise.allSettled(writes);
  const rejected = settled.flatMap(({ status }, index) => (status === "rejected" ? index : []));
  t.deepEqual(rejected, [4, 5]);
  const entries = await listBalanceEntries(db, store.id, { after: null, limit: 10 });
  const recorded = entries.map(({ kind, quantity }) => `${kind} ${quantity}`).toReversed();
  t.deepEqual(recorded, ["topup null", "tree 1", "tree 2", "refund 3", "tree 4", "tree 6"]);
  t.like(await readStoreState(db, store.id), { remaining: 10, totals: 10, brokenLinks: 0 });
});

test("a store's burst of reversals is not before another store's planting", async (t) => {
  const { db, writer, plant } = stageWrites(t);
  const store = await createTestStore(db, { balanceCents: 10_000 });
  const other = await createTestStore(db, { balanceCents: 10_000 });
  await plant(store, { count: 100 });
  const settled: string[] = [];

  const burst = Array.from({ length: 100 }, async () => {
    await writer.write(refundOf(store.id, 1));
    settled.push("refund");
  });
  const planted = plant(other).then(() => settled.push("plant"));
  await Promise.all([...burst, planted]);

  t.true(settled.indexOf("plant") <= 20, String(settled.indexOf("plant")));
  t.like(await readStoreState(db, store.id), { balance: 10_000, remaining: 0, totals: 0 });
});

test("reversals of several stores that wait together select by what each one names", async (t) => {
  const { db, writer, plant } = stageWrites(t);
  const stores: TestStore[] = [];
  for (let index = 0; index < 7; index += 1) {
    const store = await createTestStore(db, { balanceCents: 10_000 });
    for (const [count, orderId] of [
      [1, "#1"],
      [2, "#2"],
      [4, "#1"],
    ] as const) {
      const customer = { customerEmail: `${index}@shop`, customerName: `Customer ${index}` };
      await plant(store, { count, orderId, ...customer });
    }
    stores.push(store);
  }

  const results = await describeAll(
    (
      [
        [5, { orderId: "1" }],
        [3, { orderId: "2" }],
        [2, { orderId: "2" }],
        [6, { email: "3@SHOP" }],
        [3, { wholeName: " CUSTOMER 4" }],
        [1, { wholeName: "Customer" }],
        [7, { wholeName: "Customer 6" }],
      ] as const
    ).map(([quantity, filter], index) =>
      writer.write({ ...refundOf(stores[index]?.id ?? "", quantity), filter }),
    ),
  );

  const [done, refused] = ["recorded", "request_invalid"];
  t.deepEqual(results, [done, refused, done, done, done, refused, done]);
  const states = await Promise.all(stores.map(({ id }) => readStoreState(db, id)));
  const remaining = states.map((state) => state.remaining);
  t.deepEqual(remaining, [2, 7, 5, 1, 4, 7, 0]);
});

test("concurrent donations and reversals of one store are all recorded, beside the plantings of others", async (t) => {
  const { db, store, ...api } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const other = await createTestStore(db, { balanceCents: 10_000 });
  await api.post("/app/api/plant", store.live, { trees: 20 });

  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) => [
      api.post("/app/api/charity/donate", store.live, { charity_id: EIN, amount: 1 }),
      api.post("/app/api/refund", store.live, { type: "tree", quantity: 1 }),
      api.post("/app/api/plant", index % 2 === 0 ? store.live : other.live, { trees: 1 }),
    ]).flat(),
  );

  t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  const left = { balance: 10_000 - 20 * 100 - 10 * 50, remaining: 10, totals: 10, brokenLinks: 0 };
  t.like(await readStoreState(db, store.id), left);
  t.like(await readStoreState(db, other.id), { balance: 9500, remaining: 10 });
});

test("of the stores in a batch, only the one that its balance does not cover has writes rejected, in their order", async (t) => {
  const { db, plant } = stageWrites(t);
  const poor = await createTestStore(db, { balanceCents: 120 });
  const rich = await createTestStore(db, { balanceCents: 10_000 });
  const other = await createTestStore(db, { balanceCents: 100 });

  const results = await describeAll([
    plant(poor),
    plant(rich, { count: 7 }),
    plant(poor, { count: 100 }),
    plant(other, { count: 2 }),
    plant(poor),
    plant(rich),
    plant(poor),
    plant(poor, { mode: "test" }),
  ]);

  const [done, refused] = ["recorded", "balance_insufficient"];
  t.deepEqual(results, [done, done, refused, done, done, done, refused, done]);
  t.like(await readStoreState(db, poor.id), { balance: 20, registrations: 3, brokenLinks: 0 });
  const ofRich = { balance: 9600, registrations: 2, totals: 8, entries: 3, brokenLinks: 0 };
  t.like(await readStoreState(db, rich.id), ofRich);
  t.like(await readStoreState(db, other.id), { balance: 0, registrations: 1, brokenLinks: 0 });
});

test("a batch of which the database rejects a repeated write has its other writes recorded once", async (t) => {
  const { db, plant } = stageWrites(t);
  const full = await createTestStore(db, { treePriceCents: 0 });
  const other = await createTestStore(db, { balanceCents: 1000 });
  await plant(full, { count: Number.MAX_SAFE_INTEGER });

  const results = await describeAll([
    plant(other),
    plant(full, { key: "a" }),
    plant(full, { key: "a" }),
    plant(full, { mode: "test" }),
  ]);

  t.deepEqual(results, ["recorded", "request_invalid", "request_invalid", "recorded"]);
  t.like(await readStoreState(db, other.id), { balance: 950, registrations: 1, brokenLinks: 0 });
});
