import { listFacts } from "../../../modules/planting/facts.sql.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import { simulateAllocated } from "../../../modules/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../../modules/planting/withdrawPlantingFact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const START_MS = Date.parse("2026-05-02T10:00:00.000Z");

const planted = (number: number): PlantingFact => ({
  stage: "planted",
  occurred_at: new Date(START_MS + number).toISOString(),
  media: [],
});

test("a partner can report a hundred facts of an order that do not take effect, and no more", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  setup.clock.set("2026-06-30T10:00:00.000Z");
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  const allocated = (number: number) => simulateAllocated(order, new Date(START_MS + number));
  const report = (source: "callback" | "operator", ...facts: readonly PlantingFact[]) =>
    recordPlantingFacts(setup.deps, order.id, facts, source);
  const states = async () =>
    Object.fromEntries(
      [...Map.groupBy(await listFacts(db, order.id), ({ state }) => state)].map(
        ([state, facts]) => [state, facts.length],
      ),
    );
  const refused = {
    message: /^planted: the order has 100 facts that wait for others or contradict them\. /u,
  };

  await report("callback", ...Array.from({ length: 99 }, (_, index) => planted(index)));
  await t.throwsAsync(report("callback", planted(99), planted(100)), refused);
  t.deepEqual(await states(), { accepted: 1, waiting: 99 }, "nothing of the report is recorded");
  await report("callback", planted(99));
  await t.throwsAsync(report("callback", planted(100)), refused);

  const [repeated] = await report("callback", planted(99));
  t.is(repeated?.outcome, "repeated");
  const [operated] = await report("operator", planted(101));
  t.is(operated?.outcome, "waiting");
  const [effective] = await report("callback", allocated(0));
  t.is(effective?.outcome, "accepted");
  t.deepEqual(await states(), { accepted: 3, contradiction: 100 });
  await t.throwsAsync(report("callback", planted(100)), refused);

  const wrong = (await listFacts(db, order.id, ["contradiction"]))[0];
  await withdrawPlantingFact(
    {
      ...setup.deps,
      actor: { kind: "operator", name: "ann", reason: null },
      wakeOrder: () => Promise.resolve(),
    },
    wrong?.id ?? 0,
    { reason: "wrong day", replacement: null, isDryRun: false },
  );
  const [later] = await report("callback", planted(100));
  t.is(later?.outcome, "contradiction");
});
