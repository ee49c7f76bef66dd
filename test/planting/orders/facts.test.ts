import { sql } from "../../../db/sql.ts";
import { plantingReport } from "../../../modules/planting/fact.rules.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { pollPlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import {
  recordPlantingFacts,
  reportPlanting,
} from "../../../modules/planting/recordPlantingFacts.ts";
import {
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { fundsDistributed, placeOrders } from "../setUpPlanting.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;

test.serial("facts in the wrong order wait and then take effect together", async (t) => {
  const { setup, allocated, planted, verified, report } = await placeOrders(t.context.db);
  t.deepEqual(await report(verified, planted), ["waiting", "waiting"]);
  t.is((await setup.orders())[0]?.stage, "funds_distributed");
  t.deepEqual(await report(allocated), ["accepted"]);
  const [after] = await setup.orders();
  t.is(after?.stage, "planted_and_verified");
  t.is(after?.plantedAt?.toISOString(), "2026-06-01T08:00:00.000Z");
});

test.serial("a contradiction is stored and changes nothing", async (t) => {
  const { setup, order, allocated, planted, report } = await placeOrders(t.context.db);
  await report(allocated, planted);
  const [before] = await setup.orders();
  const other = simulatePlanted(order, new Date("2026-06-15T08:00:00.000Z"));
  t.deepEqual(await report(other, other), ["contradiction", "repeated"]);
  const early = simulateVerified(order, new Date("2026-05-20T08:00:00.000Z"));
  t.deepEqual(await report(early), ["contradiction"]);
  t.deepEqual((await setup.orders())[0], before);
});

test.serial(
  "an order is polled until its timeline is complete, and a later verification is recorded",
  async (t) => {
    const { setup, order, allocated, planted, verified, report } = await placeOrders(t.context.db);
    const poll = () => pollPlantingOrder(setup.deps, order.id, NEVER);
    await report(allocated);
    t.false((await poll()).isFinished);
    await report(planted);
    t.true((await poll()).isFinished);
    t.deepEqual(await report(verified), ["accepted"]);
    t.is((await setup.orders())[0]?.stage, "planted_and_verified");
    t.true((await poll()).isFinished);
  },
);

test.serial("concurrent reports record each fact once", async (t) => {
  const { allocated, planted, verified, report, states } = await placeOrders(t.context.db);
  const all = [verified, planted, allocated];
  await Promise.all(Array.from({ length: 12 }, (_, index) => report(all[index % 3] ?? allocated)));
  t.deepEqual((await states()).toSorted(), [
    "allocated accepted",
    "funds_distributed accepted",
    "planted accepted",
    "planted_and_verified accepted",
  ]);
});

test.serial("reports do not wait for the sites that they name without a change", async (t) => {
  const { setup, placed } = await placeOrders(t.context.db, 2);
  const [first, second] = placed;
  const allocations = first?.allocated.allocations ?? [];
  await first?.report({ ...first.allocated, allocations });
  const locked = await t.context.db.connect(async (connection) => {
    await connection.query(sql.typeAlias("void")`BEGIN`);
    await connection.query(sql.typeAlias("void")`SELECT FROM planting_site FOR UPDATE`);
    const outcomes = await second?.report({ ...second.allocated, allocations });
    await connection.query(sql.typeAlias("void")`ROLLBACK`);
    return outcomes;
  });
  t.deepEqual(locked, ["accepted"]);
  t.is((await setup.orders())[1]?.stage, "allocated");
});

test.serial("a fact in the future is rejected, and its whole report with it", async (t) => {
  const { order, allocated, report, states } = await placeOrders(t.context.db);
  const ahead = simulatePlanted(order, new Date("2026-07-02T08:00:00.000Z"));
  await t.throwsAsync(report(allocated, ahead), {
    message: "planted: occurred_at is in the future",
  });
  const allocations = allocated.allocations.map((allocation) => ({
    ...allocation,
    date_allocated: "2066-01-01T00:00:00Z",
  }));
  await t.throwsAsync(report({ ...allocated, allocations }), {
    message: "allocated: date_allocated is in the future",
  });
  t.deepEqual(await states(), ["funds_distributed accepted"]);
});

test.serial("a fact in a year that cannot be stored is rejected as invalid", async (t) => {
  const { setup, order } = await placeOrders(t.context.db);
  const parse = (time: string) =>
    plantingReport.safeParse({
      order: order.publicId,
      facts: [{ stage: "planted", media: [], occurred_at: time }],
    });
  for (const time of [
    "0000-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
  ]) {
    t.like(parse(time).error?.issues[0], {
      path: ["facts", 0, "occurred_at"],
      message: "must be a time in the years 1970 to 9999",
    });
  }
  const report = plantingReport.parse(parse("1970-01-01T00:00:00Z").data);
  t.like(await reportPlanting(setup.deps, report, "callback"), [{ outcome: "waiting" }]);
});

test.serial("facts of an unknown order are rejected", async (t) => {
  const { setup } = await placeOrders(t.context.db);
  const facts = [fundsDistributed("po_unknown", setup.clock.now())];
  await t.throwsAsync(recordPlantingFacts(setup.deps, 2_000_000_000, facts, "operator"), {
    message: "failed to find planting order",
  });
});

const plantedAt = (number: number): PlantingFact => ({
  stage: "planted",
  occurred_at: new Date(Date.parse("2026-06-01T10:00:00.000Z") + number).toISOString(),
  media: [],
});

test.serial(
  "a partner can report a hundred facts of an order that do not take effect, and no more",
  async (t) => {
    const { setup, order, allocated, report, withdraw } = await placeOrders(t.context.db);
    const reportAsPartner = async (...facts: readonly PlantingFact[]) =>
      (await recordPlantingFacts(setup.deps, order.id, facts, "callback")).map(
        ({ outcome }) => outcome,
      );
    const countStates = async () =>
      Object.fromEntries(
        [...Map.groupBy(await listFacts(t.context.db, order.id), ({ state }) => state)].map(
          ([state, facts]) => [state, facts.length],
        ),
      );
    const refused = {
      message: /^planted: the order has 100 facts that wait for others or contradict them\. /u,
    };

    await reportAsPartner(...Array.from({ length: 99 }, (_, index) => plantedAt(index)));
    await t.throwsAsync(reportAsPartner(plantedAt(99), plantedAt(100)), refused);
    t.deepEqual(await countStates(), { accepted: 1, waiting: 99 }, "nothing of it is recorded");
    await reportAsPartner(plantedAt(99));
    await t.throwsAsync(reportAsPartner(plantedAt(100)), refused);

    t.deepEqual(await reportAsPartner(plantedAt(99)), ["repeated"]);
    t.deepEqual(await report(plantedAt(101)), ["waiting"], "operators may report any number");
    t.deepEqual(await reportAsPartner(allocated), ["accepted"]);
    t.deepEqual(await countStates(), { accepted: 3, contradiction: 100 });
    await t.throwsAsync(reportAsPartner(plantedAt(100)), refused);

    await withdraw("planted");
    t.deepEqual(await reportAsPartner(plantedAt(100)), ["contradiction"]);
  },
);
