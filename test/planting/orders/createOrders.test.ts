import { parseConfig } from "../../../runtime/config/config.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { lockPlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { readSummary } from "../../../modules/planting/summary.sql.ts";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { plantingOrderIntervalMs } from "../../../modules/planting/createPlanting.ts";
import { placePlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { fundsDistributed, setUpPlanting } from "../setUpPlanting.ts";
import type { PlantingSetup } from "../setUpPlanting.ts";

const test = testWithDatabase();

const plantedOf = async (setup: PlantingSetup) => {
  const sites = await listPlantedSites(setup.deps.db, setup.organization.id, true);
  return {
    planted: sites.reduce((sum, { planted }) => sum + planted, 0),
    verified: sites.reduce((sum, { verified }) => sum + verified, 0),
  };
};

test.serial("an order has all unordered trees but refunded ones, each tree once", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(3);
  const partly = await setup.register(5);
  const wholly = await setup.register(7);
  await setup.register(100, { kind: "bottle" });
  await setup.refund(partly, 2);
  await setup.refund(wholly, 7);
  t.is(await setup.createOrders(), 1);
  t.is(await setup.createOrders(), 0);
  const [order] = await setup.orders();
  t.is(order?.treeCount, 6);
  t.is(order?.buyerName, "Test Organization");
});

test.serial("concurrent runs create each order once", async (t) => {
  const setups = await Promise.all(Array.from({ length: 8 }, () => setUpPlanting(t.context.db)));
  await Promise.all(setups.flatMap(({ register }) => [register(2), register(3)]));
  const created = await Promise.all(setups.slice(0, 4).map(({ createOrders }) => createOrders()));
  t.is(
    created.reduce((sum, orders) => sum + orders, 0),
    8,
  );
  for (const { orders } of setups) {
    t.deepEqual(
      (await orders()).map(({ treeCount }) => treeCount),
      [5],
    );
  }
});

test.serial("all orders of a real partner come first, and are not bounded", async (t) => {
  const { db } = t.context;
  const setups = await Promise.all(
    Array.from({ length: 3 }, () => setUpPlanting(db, { partner: "manual" })),
  );
  const [first] = setups;
  await first?.createOrders();
  for (const { register } of setups) {
    await register(1, { mode: "test" });
    await register(1);
  }
  t.is(await first?.createOrders({ intervalMs: 1000 }), 4);
  const orders = (await Promise.all(setups.map((setup) => setup.orders()))).flat();
  t.deepEqual(orders.map(({ mode }) => mode).toSorted(), ["live", "live", "live", "test"]);
});

const ordersOf = (setups: readonly PlantingSetup[]): Promise<readonly number[]> =>
  Promise.all(setups.map(async ({ orders }) => (await orders()).length));

test.serial(
  "simulated orders are bounded, and those that wait the longest come first",
  async (t) => {
    const { db } = t.context;
    const { createOrders } = await setUpPlanting(db);
    await createOrders();
    const setups = await Promise.all(Array.from({ length: 3 }, () => setUpPlanting(db)));
    const [first] = setups;
    // Enough for two orders.
    const intervalMs = 2000;
    for (const { register } of setups) {
      await register(1);
    }
    t.is(await createOrders({ intervalMs }), 2);
    t.deepEqual(await ordersOf(setups), [1, 1, 0]);
    await first?.register(1);
    t.is(await createOrders({ intervalMs }), 2);
    t.deepEqual(await ordersOf(setups), [2, 1, 1]);
    t.is(await createOrders({ intervalMs }), 0);
  },
);

test.serial(
  "live and test trees never share an order, and test orders are always simulated",
  async (t) => {
    const setup = await setUpPlanting(t.context.db, { partner: "manual" });
    await setup.register(3);
    await setup.register(4, { mode: "test" });
    t.is(await setup.createOrders(), 2);
    const orders = await setup.orders();
    t.deepEqual(
      orders
        .map(({ mode, partner, treeCount }) => [mode, partner, treeCount])
        .toSorted((left, right) => Number(left[2]) - Number(right[2])),
      [
        ["live", "manual", 3],
        ["test", "simulated", 4],
      ],
    );
  },
);

test.serial("the first poll of an order that was not placed places it", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(3);
  await setup.createOrders();

  // The running workflow has placed an order of this number that a restore of the database has lost.
  await setup.pass(0);

  const [order] = await setup.orders();
  t.is(order?.stage, "funds_distributed");
  t.is(order?.partnerReference, `simulated/${order?.publicId}`);
});

test.serial("overlapping attempts place an order once", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(3);
  await setup.createOrders();
  const [order] = await setup.orders();
  let nowMs = setup.clock.now().getTime();
  const clock = { now: () => new Date((nowMs += 1000)) };
  const deps = { ...setup.deps, clock };

  await runBehindLocks(
    t.context.db,
    (transaction) => lockPlantingOrder(transaction, order?.id ?? 0),
    () => placePlantingOrder(deps, order?.id ?? 0, new AbortController().signal),
    () => placePlantingOrder(deps, order?.id ?? 0, new AbortController().signal),
  );

  const facts = await listFacts(t.context.db, order?.id ?? 0);
  t.deepEqual(
    facts.map(({ stage, state }) => [stage, state]),
    [["funds_distributed", "accepted"]],
  );
});

test.serial("the manual partner's orders have funds distributed only by report", async (t) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.register(3);
  await setup.createOrders();
  const stage = async () => (await setup.orders())[0]?.stage;
  const [order] = await setup.orders();
  const { id = 0, publicId = "" } = order ?? {};
  await placePlantingOrder(setup.deps, id, new AbortController().signal);
  await setup.pass(STAGE_MS);
  t.is(await stage(), "created");
  await recordPlantingFacts(
    setup.deps,
    id,
    [fundsDistributed(publicId, setup.clock.now())],
    "operator",
  );
  t.is(await stage(), "funds_distributed");
});

test.serial("a simulated order reaches each stage on time, not earlier", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  const stage = async () => (await setup.orders())[0]?.stage;
  t.is(await stage(), "funds_distributed");
  await setup.pass(STAGE_MS - 1);
  t.is(await stage(), "funds_distributed");
  await setup.pass(1);
  t.is(await stage(), "allocated");
  t.deepEqual(await plantedOf(setup), { planted: 0, verified: 0 });
  await setup.pass(STAGE_MS);
  t.is(await stage(), "planted");
  t.deepEqual(await plantedOf(setup), { planted: 10, verified: 0 });
  await setup.pass(STAGE_MS);
  t.is(await stage(), "planted_and_verified");
  t.deepEqual(await plantedOf(setup), { planted: 10, verified: 10 });
});

test.serial("stages that passed between two polls are recorded with their own times", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  await setup.pass(100 * STAGE_MS);
  const [order] = await setup.orders();
  t.is(order?.stage, "planted_and_verified");
  t.is(order?.plantedAt?.toISOString(), "2026-05-01T10:02:00.000Z");
  t.is(order?.verifiedAt?.toISOString(), "2026-05-01T10:03:00.000Z");
});

test.serial(
  "trees of a partner that reports only sessions count as planted when verified",
  async (t) => {
    const setup = await setUpPlanting(t.context.db, { timeline: "sessions" });
    await setup.register(10);
    await setup.createOrders();
    await setup.place();
    await setup.pass(3 * STAGE_MS - 1);
    t.deepEqual(await plantedOf(setup), { planted: 0, verified: 0 });
    await setup.pass(1);
    t.deepEqual(await plantedOf(setup), { planted: 10, verified: 10 });
  },
);

test.serial("refunds before and after planting lower the planted trees", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  const id = await setup.register(3001);
  await setup.createOrders();
  await setup.place();
  await setup.refund(id, 500);
  await setup.pass(10 * STAGE_MS);
  t.deepEqual(await plantedOf(setup), { planted: 2501, verified: 2501 });
  await setup.refund(id, 1500);
  t.deepEqual(await plantedOf(setup), { planted: 1001, verified: 1001 });
  await setup.refund(id, 1001);
  t.deepEqual(await plantedOf(setup), { planted: 0, verified: 0 });
});

/** The summary of live trees while the partner is simulated. */
const SIMULATION = { mode: "live", isSimulated: true } as const;

test.serial("test trees never count as planted", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  const { planted: before } = await readSummary(t.context.db, SIMULATION);
  await setup.register(10, { mode: "test" });
  await setup.createOrders();
  await setup.place();
  await setup.pass(10 * STAGE_MS);
  t.is((await setup.orders())[0]?.stage, "planted_and_verified");
  t.deepEqual(await plantedOf(setup), { planted: 0, verified: 0 });
  t.deepEqual((await readSummary(t.context.db, SIMULATION)).planted, before);
});

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * MINUTE_MS;

const ordersEvery = test.macro({
  exec: (t, env: Readonly<Record<string, string>>, intervalMs: number) => {
    t.is(plantingOrderIntervalMs(parseConfig(env)), intervalMs);
  },
  title: (title) => `planting orders are created ${title ?? ""}`,
});

test("every minute with the simulated partner", ordersEvery, {}, MINUTE_MS);
test("every day with the manual partner", ordersEvery, { PLANTING_PARTNER: "manual" }, DAY_MS);
test("every day with TreeMapper", ordersEvery, { PLANTING_PARTNER: "treemapper" }, DAY_MS);
test(
  "at the configured interval with any partner",
  ordersEvery,
  { PLANTING_PARTNER: "manual", PLANTING_ORDER_INTERVAL_SECONDS: "90" },
  90_000,
);
