import type { ExecutionContext } from "ava";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { PLANTING_STAGES } from "../../../modules/planting/order.rules.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../../modules/planting/withdrawPlantingFact.ts";
import { readEvents } from "../../events/readEvents.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

/** Creates an order that is placed. */
const placeOrder = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  const now = setup.clock.now();
  const owner = { accountId: setup.organization.id, mode: "live" } as const;
  return {
    allocated: simulateAllocated(order, now),
    planted: simulatePlanted(order, now),
    verified: simulateVerified(order, now),
    report: (...facts: readonly PlantingFact[]) =>
      recordPlantingFacts(setup.deps, order.id, facts, "callback"),
    withdraw: async (stage: PlantingFact["stage"], ...facts: readonly PlantingFact[]) => {
      const accepted = await listFacts(db, order.id, ["accepted"]);
      await withdrawPlantingFact(
        {
          ...setup.deps,
          actor: { kind: "operator", name: "ana", reason: null },
          wakeOrder: () => Promise.resolve(),
        },
        accepted.find((fact) => fact.stage === stage)?.id ?? 0,
        {
          reason: "wrong",
          replacement: facts.length > 0 ? { order: order.publicId, facts: [...facts] } : null,
          isDryRun: false,
        },
      );
    },
    /** The stages that the order has reached, in their order. */
    accepted: async () => {
      const facts = await listFacts(db, order.id, ["accepted"]);
      return PLANTING_STAGES.filter((each) => facts.some(({ stage }) => stage === each));
    },
    milestones: async () =>
      (await readEvents(setup.deps, owner, { types: ["evidence.milestone_reached"] })).map(
        ({ data }) => ("milestone" in data ? data.milestone : null),
      ),
  };
};

test.serial(
  "each milestone that an order reaches by one report is an event, in their order",
  async (t) => {
    const { allocated, planted, verified, report, milestones } = await placeOrder(t);
    await report(verified, planted, allocated);
    t.deepEqual(await milestones(), [
      "funds_distributed",
      "allocated",
      "planted",
      "planted_and_verified",
    ]);
  },
);

test.serial("facts that waited for a reported one are events with it", async (t) => {
  const { allocated, planted, report, milestones } = await placeOrder(t);
  await report(planted);
  t.deepEqual(await milestones(), ["funds_distributed"]);
  await report(allocated);
  t.deepEqual(await milestones(), ["funds_distributed", "allocated", "planted"]);
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
    const media = planted.media.slice(1);
    await withdraw("planted", { ...planted, media });
    const once = ["funds_distributed", "allocated", "planted"];
    t.deepEqual(await milestones(), once);

    await withdraw("allocated");
    const allocations = allocated.allocations.map((each) => ({ ...each, reference: "A-1" }));
    await report({ ...allocated, allocations });
    t.deepEqual(await milestones(), [...once, "allocated", "planted"]);
  },
);

test.serial(
  "planting that a later fact verifies is withdrawn after the verification, or replaced",
  async (t) => {
    const { allocated, planted, verified, report, withdraw, accepted } = await placeOrder(t);
    await report(allocated, planted, verified);
    const all = ["funds_distributed", "allocated", "planted", "planted_and_verified"];
    await t.throwsAsync(withdraw("planted"), {
      message: /^fact \d+ verifies what fact \d+ reports as planted; withdraw fact \d+ first/u,
    });
    t.deepEqual(await accepted(), all);
    await withdraw("planted", { ...planted, media: planted.media.slice(1) });
    t.deepEqual(await accepted(), all);
    await withdraw("planted_and_verified");
    await withdraw("planted");
    t.deepEqual(await accepted(), all.slice(0, 2));
  },
);
