import type { ExecutionContext } from "ava";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../../modules/planting/withdrawPlantingFact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { fundsDistributed, setUpPlanting } from "../setUpPlanting.ts";

// Serial, because each test creates the orders of all accounts, and leaves out trees that another one has locked.
const test = testWithDatabase();

/** Takes an order through some stages by polls. */
const poll = async (t: ExecutionContext<DatabaseContext>, stages: number) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  await setup.pass(stages * STAGE_MS);
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  const listStates = async () =>
    (await listFacts(t.context.db, order.id)).map(({ stage, state }) => `${stage} ${state}`);
  return {
    setup,
    order,
    listStates,
    withdraw: async (replacement: readonly PlantingFact[]) =>
      withdrawPlantingFact(
        {
          ...setup.deps,
          actor: { kind: "operator", name: "ana", reason: null },
          wakeOrder: () => Promise.resolve(),
        },
        (await listFacts(t.context.db, order.id))[0]?.id ?? 0,
        {
          reason: "the reference of another order",
          replacement:
            replacement.length > 0 ? { order: order.publicId, facts: [...replacement] } : null,
          isDryRun: false,
        },
      ),
  };
};

test.serial(
  "funds_distributed of a planted order can only be replaced: a poll would place the order after it was planted",
  async (t) => {
    const { setup, order, withdraw, listStates } = await poll(t, 2);
    const before = await listStates();
    t.deepEqual(before, ["funds_distributed accepted", "allocated accepted", "planted accepted"]);
    await t.throwsAsync(withdraw([]), {
      code: "request_invalid",
      message:
        /the order has a fact of stage planted, .*; pass another funds_distributed with --replacement/u,
    });
    t.deepEqual(await listStates(), before);

    await withdraw([fundsDistributed("right", order.createdAt)]);
    await setup.pass(0);
    t.like(await setup.orders(), [{ stage: "planted", partnerReference: "right" }]);
  },
);

test.serial(
  "a replacement that repeats the withdrawn fact is rejected: the fact would stay withdrawn",
  async (t) => {
    const { setup, order, withdraw, listStates } = await poll(t, 2);
    const before = await listStates();
    const [placed] = await listFacts(t.context.db, order.id);
    await t.throwsAsync(withdraw(placed ? [placed.content] : []), { code: "request_invalid" });
    await setup.pass(1000);
    t.deepEqual(await listStates(), before);
  },
);

test.serial("an order that is only placed is placed again", async (t) => {
  const { setup, withdraw, listStates } = await poll(t, 0);
  t.deepEqual(await listStates(), ["funds_distributed accepted"]);
  await withdraw([]);
  t.like(await setup.orders(), [{ stage: "created" }]);
  await setup.pass(1000);
  t.deepEqual(await listStates(), ["funds_distributed withdrawn", "funds_distributed accepted"]);
});

test.serial(
  "funds_distributed of an order can only be replaced while planting waits for an allocation",
  async (t) => {
    const { setup, order, withdraw, listStates } = await poll(t, 0);
    await recordPlantingFacts(
      setup.deps,
      order.id,
      [{ stage: "planted", occurred_at: setup.clock.now().toISOString(), media: [] }],
      "partner",
    );
    const before = await listStates();
    t.deepEqual(before, ["funds_distributed accepted", "planted waiting"]);

    await t.throwsAsync(withdraw([]), {
      code: "request_invalid",
      message:
        /the order has a fact of stage planted, .*; pass another funds_distributed with --replacement/u,
    });
    t.deepEqual(await listStates(), before);

    await withdraw([fundsDistributed("right", order.createdAt)]);
    t.like(await setup.orders(), [{ stage: "funds_distributed", partnerReference: "right" }]);
  },
);
