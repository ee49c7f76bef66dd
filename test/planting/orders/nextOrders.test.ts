import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { closeNextOrder } from "../../../modules/planting/nextOrders.sql.ts";
import { createEvidenceReader } from "../../../modules/planting/readEvidence.ts";
import { insertRegistrations } from "../../../modules/registrations/registrations.sql.ts";
import type { RegistrationEntry } from "../../../modules/registrations/registrations.sql.ts";
import { lockRegistrations } from "../../../modules/registrations/refunds.sql.ts";
import { releaseRefundedTrees } from "../../../modules/planting/releaseRefundedTrees.ts";
import { newId } from "../../../runtime/newId.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { endsOrBlocks, openDeadlockPool, whileOpen } from "../../support/lockWaits.ts";
import { createRandom } from "../../support/random.ts";

const test = testWithDatabase().serial;

const NOW = new Date("2026-05-01T10:00:00.000Z");

const entryOf = (
  accountId: string,
  count: number,
  idempotencyKey: string | null = null,
): RegistrationEntry => ({
  ...registrationOf(accountId, { count, idempotencyKey }),
  id: newId(),
});

const sumsRow = z.strictObject({
  treeCount: z.bigint().nullable(),
  refundedCount: z.bigint().nullable(),
  registered: z.bigint(),
  remaining: z.bigint(),
});

/** Returns, of each order that trees have joined, what the order has and what the registrations have. */
const readOrders = (db: DatabasePool) =>
  db.any(sql.type(sumsRow)`
    SELECT
      planting_order.tree_count AS "treeCount",
      planting_order.refunded_count AS "refundedCount",
      sum(registration.count)::bigint AS registered,
      sum(registration.count - registration.refunded_count)::bigint AS remaining
    FROM registration
    LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
    GROUP BY registration.planting_order_id, planting_order.id
    ORDER BY registration.planting_order_id
  `);

test("trees that are registered while orders are created are in one order each, without deadlocks", async (t) => {
  const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
  const setup = await setUpPlanting(db);
  const others = await Promise.all(Array.from({ length: 7 }, () => createTestOrganization(db)));
  const accountIds = [setup.organization, ...others].map(({ id }) => id);
  const random = createRandom(1);
  let registered = 0;
  const ended = new AbortController();
  // Each batch has several accounts, in any order, of which some have no open order, and keys of other batches.
  const write = async (): Promise<void> => {
    for (let batch = 0; batch < 40; batch += 1) {
      const entries = Array.from({ length: 6 }, () =>
        entryOf(
          accountIds[random.below(accountIds.length)] ?? "",
          1 + random.below(3),
          random.below(2) === 0 ? null : `key ${batch} ${random.below(4)}`,
        ),
      );
      const { insertedIds } = await insertRegistrations(db, entries, NOW);
      registered += entries
        .filter(({ id }) => insertedIds?.has(id) ?? true)
        .reduce((sum, { count }) => sum + count, 0);
    }
  };
  const createOrders = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await setup.createOrders();
    }
  };
  const creating = Promise.all([createOrders(), createOrders()]);
  await Promise.all([write(), write(), write(), write()]);
  ended.abort();
  await creating;
  await setup.createOrders();

  t.deepEqual(deadlocks, []);
  const orders = await readOrders(db);
  t.true(orders.length > accountIds.length);
  t.true(orders.every(({ treeCount, remaining }) => treeCount === remaining));
  const ordered = orders.reduce((sum, { treeCount }) => sum + (treeCount ?? 0n), 0n);
  t.is(ordered, BigInt(registered));
});

test("an order waits for its trees, and later trees do not wait for it", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  const { id: accountId } = setup.organization;
  await setup.register(1);
  const insert = (count: number) => (transaction: CommonQueryMethods) =>
    insertRegistrations(transaction, [entryOf(accountId, count)], NOW);

  const creating = await whileOpen(db, insert(2), async (transaction) => {
    const work = setup.createOrders();
    t.false(await endsOrBlocks(transaction, work));
    // The totals of the other mode are not locked.
    await setup.register(4, { mode: "test" });
    const joined = await transaction.anyFirst(sql.type(z.strictObject({ isOpen: z.boolean() }))`
      SELECT is_open AS "isOpen" FROM next_planting_order WHERE account_id = ${accountId} AND mode = 'live'
    `);
    t.deepEqual(joined, [false]);
    await insert(8)(transaction);
    return { work };
  });

  await creating.work;
  await setup.createOrders();
  const created = (await setup.orders())
    .map(({ mode, treeCount }) => `${treeCount} ${mode}`)
    .toSorted();
  t.deepEqual(created, ["3 live", "4 test", "8 live"]);
});

test("an order that was closed before a crash is created by the next run", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  await setup.createOrders();
  await setup.register(3);
  const [id = 0] = await db.anyFirst(sql.type(z.strictObject({ id: z.int() }))`
    SELECT id FROM next_planting_order WHERE account_id = ${setup.organization.id}
  `);
  await closeNextOrder(db, id);
  await setup.register(4);

  t.is(await setup.createOrders(), 2);
  t.is(await setup.createOrders(), 0);
  const treeCounts = (await setup.orders()).map((order) => order.treeCount);
  t.deepEqual(treeCounts, [3, 4]);
});

test("an order waits for a refund of its trees, and does not have them", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  const registrationId = await setup.register(5);
  await setup.createOrders();
  const refundedId = await setup.register(5);
  const owner = { accountId: setup.organization.id, mode: "live", kind: "tree" } as const;
  const given = [registrationId, refundedId].map((id) => Object.assign({ id }, owner));

  const creating = await whileOpen(
    db,
    (transaction) => lockRegistrations(transaction, given),
    async (transaction) => {
      await releaseRefundedTrees(transaction, [
        { registrationId, count: 1 },
        { registrationId: refundedId, count: 2 },
      ]);
      const work = setup.createOrders();
      t.false(await endsOrBlocks(transaction, work));
      await transaction.query(sql.typeAlias("void")`
        UPDATE registration SET refunded_count = 2 WHERE id = ${refundedId}
      `);
      return { work };
    },
  );

  await creating.work;
  const counts = (await setup.orders()).map((order) => [order.treeCount, order.refundedCount]);
  t.deepEqual(counts, [
    [5, 1],
    [3, 0],
  ]);
});

test("evidence shows the trees of a registration when its order was created", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  const id = await setup.register(10);
  const selection = { accountId: setup.organization.id, mode: "live", id } as const;
  const read = createEvidenceReader(setup.deps);
  const readAmount = async (): Promise<number | undefined> =>
    (await read(selection, null)).evidence.order?.treeCount;
  await setup.refund(id, 1);
  t.is(await readAmount(), undefined);
  await setup.createOrders();
  t.is(await readAmount(), 9);
  await setup.refund(id, 2);
  t.is(await readAmount(), 9);
  await setup.refund(id, 3);
  t.is(await readAmount(), 9);
});
