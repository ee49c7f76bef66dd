import type { ExecutionContext } from "ava";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { plantingReport } from "../../../modules/planting/fact.rules.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import {
  simulateAllocated,
  simulatePlanted,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { reportPlanting } from "../../../modules/planting/recordPlantingFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

/** Places an order with the manual partner on 30 June 2026, and reports facts of it. */
const placeOrder = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpPlanting(t.context.db, {
    partner: "manual",
    start: "2026-06-30T10:00:00.000Z",
  });
  await setup.register(10);
  await setup.createOrders();
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  return {
    order,
    allocated: simulateAllocated(order, new Date("2026-05-10T08:00:00.000Z")),
    report: (facts: readonly PlantingFact[]) =>
      reportPlanting(
        { ...setup.deps, wakeOrder: () => Promise.resolve() },
        plantingReport.parse({ order: order.publicId, facts }),
        "callback",
      ),
  };
};

test.serial("a fact in the future is rejected, and its whole report with it", async (t) => {
  const { order, allocated, report } = await placeOrder(t);
  const ahead = simulatePlanted(order, new Date("2026-07-02T08:00:00.000Z"));
  await t.throwsAsync(report([allocated, ahead]), {
    message: "planted: occurred_at is in the future",
  });
  const allocations = allocated.allocations.map((allocation) => ({
    ...allocation,
    date_allocated: "2066-01-01T00:00:00Z",
  }));
  await t.throwsAsync(report([{ ...allocated, allocations }]), {
    message: "allocated: date_allocated is in the future",
  });
  t.deepEqual(await listFacts(t.context.db, order.id), []);
});

test.serial("a fact in a year that cannot be stored is rejected as invalid", async (t) => {
  const { order, report } = await placeOrder(t);
  const placed = { stage: "funds_distributed", partner_reference: "NCP-1" } as const;
  for (const time of [
    "0000-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
  ]) {
    const parsed = plantingReport.safeParse({
      order: order.publicId,
      facts: [{ ...placed, occurred_at: time }],
    });
    t.like(parsed.error?.issues[0], {
      path: ["facts", 0, "occurred_at"],
      message: "must be a time in the years 1970 to 9999",
    });
  }
  t.like(await report([{ ...placed, occurred_at: "1970-01-01T00:00:00Z" }]), [
    { outcome: "accepted" },
  ]);
});
