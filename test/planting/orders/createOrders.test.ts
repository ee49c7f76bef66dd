import { parseConfig } from "../../../runtime/config/config.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { lockPlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { plantingOrderIntervalMs } from "../../../modules/planting/createPlanting.ts";
import { placePlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { runBehindLocks, openDeadlockPool } from "../../support/lockWaits.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { fundsDistributed, setUpPlanting } from "../setUpPlanting.ts";
import type { PlantingSetup } from "../setUpPlanting.ts";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "../../../db/sql.ts";
import { readDashboard } from "../../../modules/dashboard/readDashboard.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { createRandom } from "../../support/random.ts";
import { DAY_MS, MINUTE_MS } from "../../../runtime/durations.rules.ts";

const test = testWithDatabase().serial;

const NEVER = new AbortController().signal;

const plantedOf = async (setup: PlantingSetup) => {
  const sites = await listPlantedSites(setup.deps.db, setup.organization.id, true);
  return {
    planted: sites.reduce((sum, { planted }) => sum + planted, 0),
    verified: sites.reduce((sum, { verified }) => sum + verified, 0),
  };
};

const stageOf = async (setup: PlantingSetup) => (await setup.firstOrder()).stage;

test("an order has all unordered trees but refunded ones, each tree once", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(3);
  const partly = await setup.register(5);
  const wholly = await setup.register(7);
  await setup.register(100, { kind: "bottle" });
  await setup.refund(partly, 2);
  await setup.refund(wholly, 7);
  t.is(await setup.createOrders(), 1);
  t.is(await setup.createOrders(), 0);
  t.like(await setup.firstOrder(), { treeCount: 6, buyerName: "Test Organization" });
});

test("simulated orders are bounded, those that wait the longest come first, and real ones are not bounded", async (t) => {
  const { db } = t.context;
  const { createOrders } = await setUpPlanting(db);
  await createOrders();
  const setups = await Promise.all(Array.from({ length: 3 }, () => setUpPlanting(db)));
  const ordersOf = () => Promise.all(setups.map(async ({ orders }) => (await orders()).length));
  for (const { register } of setups) {
    await register(1);
  }
  t.is(await createOrders(2), 2);
  t.deepEqual(await ordersOf(), [1, 1, 0]);
  await setups[0]?.register(1);
  t.is(await createOrders(2), 2);
  t.deepEqual(await ordersOf(), [2, 1, 1]);

  const real = await setUpPlanting(db, { partner: "manual" });
  for (const { register } of setups) {
    await register(1, { mode: "test" });
    await register(1);
  }
  t.is(await real.createOrders(1), 4);
});

test("the first poll of an order that was not placed places it", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.order(3);

  // The running workflow has placed an order of this number that a restore of the database has lost.
  await setup.pass(0);

  const { stage, partnerReference, publicId } = await setup.firstOrder();
  t.is(stage, "funds_distributed");
  t.is(partnerReference, `simulated/${publicId}`);
});

test("overlapping attempts place an order once", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.order(3);
  const { id } = await setup.firstOrder();
  let nowMs = setup.clock.now().getTime();
  const clock = { now: () => new Date((nowMs += 1000)) };
  const deps = { ...setup.deps, clock };

  await runBehindLocks(
    t.context.db,
    (transaction) => lockPlantingOrder(transaction, id),
    () => placePlantingOrder(deps, id, NEVER),
    () => placePlantingOrder(deps, id, NEVER),
  );

  const facts = await listFacts(t.context.db, id);
  const stages = facts.map(({ stage, state }) => [stage, state]);
  t.deepEqual(stages, [["funds_distributed", "accepted"]]);
});

test("the manual partner's orders have funds distributed only by report", async (t) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.order(3);
  const { id, publicId } = await setup.firstOrder();
  await placePlantingOrder(setup.deps, id, NEVER);
  await setup.pass(STAGE_MS);
  t.is(await stageOf(setup), "created");
  const placed = fundsDistributed(publicId, setup.clock.now());
  await recordPlantingFacts(setup.deps, id, [placed], "operator");
  t.is(await stageOf(setup), "funds_distributed");
});

test("a simulated order reaches each stage on time, not earlier", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.order(10);
  await setup.place();
  for (const [passedMs, stage, planted, verified] of [
    [0, "funds_distributed", 0, 0],
    [STAGE_MS - 1, "funds_distributed", 0, 0],
    [1, "allocated", 0, 0],
    [STAGE_MS, "planted", 10, 0],
    [STAGE_MS, "planted_and_verified", 10, 10],
  ] as const) {
    await setup.pass(passedMs);
    t.is(await stageOf(setup), stage);
    t.deepEqual(await plantedOf(setup), { planted, verified });
  }
});

test("stages that passed between two polls are recorded with their own times", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.order(10);
  await setup.place();
  await setup.pass(100 * STAGE_MS);
  t.like(await setup.firstOrder(), {
    stage: "planted_and_verified",
    plantedAt: new Date("2026-05-01T10:02:00.000Z"),
    verifiedAt: new Date("2026-05-01T10:03:00.000Z"),
  });
});

test("planting orders are created every minute with the simulated partner, and else every day", (t) => {
  for (const [env, intervalMs] of [
    [{}, MINUTE_MS],
    [{ PLANTING_PARTNER: "manual" }, DAY_MS],
    [{ PLANTING_PARTNER: "treemapper" }, DAY_MS],
    [{ PLANTING_PARTNER: "manual", PLANTING_ORDER_INTERVAL_SECONDS: "90" }, 90_000],
  ] as const) {
    t.is(plantingOrderIntervalMs(parseConfig(env)), intervalMs);
  }
});

// Serial, because planting orders are created of all accounts' trees.
for (const seed of [1, 2, 3]) {
  test(`refunds beside the creation of planting orders and the planting of their trees leave equal sums everywhere (${seed})`, async (t) => {
    const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
    const setup = await setUpPlanting(db);
    const { deps, organization } = setup;
    const random = createRandom(seed);
    const counts = Array.from({ length: 12 }, () => 2 + random.below(8));
    const half = counts.length / 2;
    const first = await Promise.all(counts.slice(0, half).map((count) => setup.register(count)));
    await setup.createOrders();
    const second = await Promise.all(counts.slice(half).map((count) => setup.register(count)));
    const ids = [...first, ...second];
    const refunds = ids.flatMap((id, index) => {
      const count = counts[index] ?? 0;
      // Whole registrations, parts in two refunds, and none.
      return [
        [{ id, count }],
        [
          { id, count: 1 },
          { id, count: count - 1 },
        ],
        [{ id, count: 1 }],
        [],
      ][index % 4]!;
    });
    const refunded = refunds.reduce((sum, { count }) => sum + count, 0);
    const remaining = counts.reduce((sum, count) => sum + count, 0) - refunded;
    const order = async (delayMs: number): Promise<void> => {
      await delay(delayMs);
      await setup.createAndPlace();
    };

    const refundSome = (isFirstHalf: boolean) =>
      refunds
        .filter((_, index) => index < refunds.length / 2 === isFirstHalf)
        .map(async ({ id, count }) => {
          await delay(random.below(40));
          await setup.refund(id, count);
        });
    const pass = async (): Promise<void> => {
      for (let stage = 0; stage < 4; stage += 1) {
        await setup.pass(STAGE_MS);
      }
    };

    await Promise.all([...refundSome(true), order(random.below(20)), order(random.below(40))]);
    await Promise.all([...refundSome(false), order(random.below(40)), pass()]);
    await order(0);
    await pass();

    t.deepEqual(deadlocks, []);
    t.like(await readAccountSums(db, organization.id), {
      refunded: BigInt(refunded),
      total: BigInt(remaining),
      usage: BigInt(remaining),
    });
    const orders = await setup.orders();
    const ordered = orders.reduce(
      (sum, { treeCount, refundedCount }) => sum + treeCount - refundedCount,
      0,
    );
    t.is(ordered, remaining);
    const { trees } = await readDashboard(deps, { accountId: organization.id, name: "" });
    t.like(trees, { total: remaining, month: remaining });
    t.like(trees, { planted: remaining, plantedAndVerified: remaining });
    t.is((await plantedOf(setup)).planted, remaining);
  });
}

test("a refund waits for the planting of its trees, and subtracts them from the planted ones", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { timeline: "sessions" });
  const id = await setup.register(5);
  await setup.createAndPlace();

  // The fact has the order's lock, and waits for the site.
  await runBehindLocks<readonly unknown[]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`LOCK TABLE planting_tally IN EXCLUSIVE MODE`),
    () => setup.pass(4 * STAGE_MS),
    () => setup.refund(id, 2),
  );

  t.is((await plantedOf(setup)).planted, 3);
});
