import type { ExecutionContext } from "ava";
import { readEvents } from "../../events/readEvents.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { placeOrders } from "../setUpPlanting.ts";

const test = testWithDatabase();

/** Places an order, and lists the milestones of which there are events. */
const placeOrder = async (t: ExecutionContext<DatabaseContext>) => {
  const placed = await placeOrders(t.context.db);
  const { deps, organization } = placed.setup;
  const owner = { accountId: organization.id, mode: "live" } as const;
  // The feed begins 30 days ago.
  const clock = { now: () => new Date("2026-05-02T00:00:00Z") };
  return {
    ...placed,
    milestones: async () =>
      (await readEvents({ ...deps, clock }, owner, { types: ["evidence.milestone_reached"] })).map(
        ({ data }) => ("milestone" in data ? data.milestone : null),
      ),
  };
};

test.serial("each milestone that a report reaches is an event, in their order", async (t) => {
  const { allocated, planted, verified, report, milestones } = await placeOrder(t);
  await report(planted);
  t.deepEqual(await milestones(), ["funds_distributed"]);
  await report(verified, allocated);
  t.deepEqual(await milestones(), [
    "funds_distributed",
    "allocated",
    "planted",
    "planted_and_verified",
  ]);
});

test.serial("planting that is reported after its verification is an event", async (t) => {
  const { allocated, planted, verified, report, milestones } = await placeOrder(t);
  await report(allocated);
  await report(verified);
  await report(planted);
  const all = ["funds_distributed", "allocated", "planted_and_verified", "planted"];
  t.deepEqual(await milestones(), all);
  await report(planted);
  t.deepEqual(await milestones(), all);
});

test.serial(
  "replacing a fact records no second event, and reaching a milestone again does",
  async (t) => {
    const { allocated, planted, report, withdraw, milestones } = await placeOrder(t);
    await report(allocated, planted);
    await withdraw("planted", { ...planted, media: planted.media.slice(1) });
    const once = ["funds_distributed", "allocated", "planted"];
    t.deepEqual(await milestones(), once);

    await withdraw("allocated");
    const allocations = allocated.allocations.map((each) => ({ ...each, reference: "A-1" }));
    await report({ ...allocated, allocations });
    t.deepEqual(await milestones(), [...once, "allocated", "planted"]);
  },
);
