import type { ExecutionContext } from "ava";
import { z } from "zod";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { simulateAllocated } from "../../modules/planting/simulated/simulatedFacts.ts";
import { systemClock } from "../../runtime/clock.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { readEvents } from "../events/readEvents.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";
import { orderedTree } from "./importLine.ts";
import { linesOf, setUpImport } from "./importScene.ts";

const test = testWithDatabase();

/** Imports a tree with its order for a new organization. */
const importOrder = async (
  t: ExecutionContext<DatabaseContext>,
  orderId: number,
  publicId: string,
) => {
  const scene = await setUpImport(t);
  const run = await scene.importText(
    linesOf(...orderedTree("a", orderId, publicId)),
    "--source",
    "old.example",
  );
  t.is(run.exitCode, 0, run.stderr);
  const [order] = await listPlantingOrders(t.context.db, { accountId: scene.id, limit: 2 });
  if (!order) {
    throw new Error("There is an order.");
  }
  return { ...scene, order };
};

test("events of an imported order name the ids that its evidence shows", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId, apiKeyProd: key, order } = await importOrder(t, 107, "NCP-107");
  const run = await runImpact(["evidence", "record", "-"], {
    env: { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS },
    stdin: JSON.stringify({
      order: order.publicId,
      facts: [simulateAllocated(order, new Date("2024-05-10T08:00:00.000Z"))],
    }),
  });
  t.is(run.exitCode, 0, run.stderr);

  const owner = { accountId, mode: "live" } as const;
  const [event, ...others] = await readEvents({ db, clock: systemClock }, owner, {
    types: ["evidence.milestone_reached"],
  });

  t.deepEqual(others, []);
  t.deepEqual(event?.data, {
    order_id: 107,
    public_id: "NCP-107",
    milestone: "allocated",
    tree_count: 4,
  });
  const { call } = await startStandaloneApi(t, { db });
  const { body } = await call("GET", "/evidence/tree/a", { key });
  t.like(body, {
    status: "allocated",
    provider_meta: { order_id: 107, public_id: "NCP-107" },
  });
});

test("an operator finds an imported order by the ids that clients see, and sees them", async (t) => {
  const { impact, id: org, order } = await importOrder(t, 90_000_108, "NCP-108");
  const ids = {
    id: order.id,
    public_id: order.publicId,
    evidence_order_id: 90_000_108,
    evidence_public_id: "NCP-108",
  };
  const listed = await impact("evidence", "order", "list", "--org", org, "--json");
  t.like(readJson(listed), [ids]);
  const table = await impact("evidence", "order", "list", "--org", org);
  t.regex(table.stdout, /NCP-108/u);
  for (const given of [String(order.id), order.publicId, "90000108", "NCP-108"]) {
    const shown = await impact("evidence", "order", "show", given, "--json");
    t.is(shown.exitCode, 0, shown.stderr);
    t.like(readJson(shown), ids);
  }
  const record = await impact("evidence", "order", "show", "NCP-108");
  t.regex(record.stdout, /90000108/u);
  t.regex(record.stdout, /NCP-108/u);
});

test("a number that is one order's and shown as another's is not taken for either", async (t) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.register(3);
  await setup.createOrders();
  const [own] = await setup.orders();
  if (!own) {
    throw new Error("There is an order.");
  }
  const { impact, order } = await importOrder(t, own.id, "NCP-109");

  const run = await impact("evidence", "order", "show", String(own.id));

  t.is(run.exitCode, 1);
  t.is(run.stdout, "");
  for (const { publicId, accountId } of [own, order]) {
    t.true(run.stderr.includes(publicId), run.stderr);
    t.true(run.stderr.includes(accountId), run.stderr);
    const shown = await impact("evidence", "order", "show", publicId, "--json");
    t.is(z.looseObject({ org_id: z.string() }).parse(readJson(shown)).org_id, accountId);
  }
});
