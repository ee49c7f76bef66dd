import { simulateVerified } from "../../../providers/planting/simulated/simulatedFacts.ts";
import { plantingOrder } from "../../../workflows/plantingOrder.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../../support/programs.ts";
import { createAndPlace } from "../evidence/evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

test("a report on an order whose workflow has ended prints no warning", async (t) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.register(3);
  await createAndPlace(setup);
  const [order] = await setup.orders();
  const { namespace, client } = await openNamespace(t);
  const workflowId = await setup.workflowIdOf(order?.id ?? 0);
  const handle = await client.workflow.start(plantingOrder, {
    workflowId,
    taskQueue: "without-workers",
    args: [order?.id ?? 0],
  });
  await handle.terminate();
  const { publicId = "", treeCount = 0 } = order ?? {};
  const run = await runImpact(["evidence", "record", "-"], {
    env: {
      DATABASE_URL: t.context.databaseUrl,
      TEMPORAL_ADDRESS,
      TEMPORAL_NAMESPACE: namespace,
    },
    clock: setup.clock,
    stdin: JSON.stringify({
      order: publicId,
      facts: [simulateVerified({ publicId, treeCount }, new Date("2026-05-01T10:00:00.000Z"))],
    }),
  });
  t.is(run.exitCode, 0, run.stderr);
  t.notRegex(run.stderr, /workflow/u);
});
