import { Client, Connection } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { createActivities } from "../../activities/createActivities.ts";
import { systemClock } from "../../domain/clock.ts";
import { listOrders } from "../../db/plantingOrders.ts";
import { listFacts } from "../../db/plantingFacts.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { createPlanting } from "../../providers/planting/createPlanting.ts";
import { createRegistrationWriter } from "../../services/registrationWriter.ts";
import { bundleWorkflows } from "../../worker/runWorker.ts";
import { plantingGathering, PLANTING_GATHERING_ID } from "../../workflows/plantingGathering.ts";
import { plantingOrderId } from "../../workflows/plantingOrder.ts";
import { BACKGROUND_QUEUE } from "../../workflows/taskQueues.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, registerNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

const test = testWithDatabase();

const DURATIONS = { allocationMs: 300, plantingMs: 300, verificationMs: 300 };

test("a gathering starts one workflow per order, which survives its worker and ends with the verification", async (t) => {
  const { db } = t.context;
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  const namespace = await registerNamespace(connection);
  const temporal = new Client({ connection, namespace });
  const native = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  const workflowBundle = await bundleWorkflows();
  const activities = createActivities({
    db,
    clock: systemClock,
    billing: createBilling({ db, stripe: null }),
    planting: createPlanting(db, {
      treeMapper: null,
      partner: "simulated",
      partnerName: null,
      simulated: { timeline: "allocations", durations: DURATIONS },
    }),
    plantingPollMs: 500,
    observeSend: () => undefined,
    observeDrift: () => undefined,
  });
  const startWorker = async () => {
    const worker = await Worker.create({
      connection: native,
      namespace,
      taskQueue: BACKGROUND_QUEUE,
      workflowBundle,
      activities,
    });
    const running = worker.run();
    return async (): Promise<void> => {
      worker.shutdown();
      await running;
    };
  };
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const { id: accountId } = await createTestOrganization(db);
  const register = (count: number) =>
    writer.register({
      accountId,
      mode: "live",
      kind: "tree",
      count,
      fractionalCount: 0,
      idempotencyKey: null,
      attribution: "",
      metadata: {},
    });
  const gather = (): Promise<void> =>
    temporal.workflow.execute(plantingGathering, {
      workflowId: PLANTING_GATHERING_ID,
      taskQueue: BACKGROUND_QUEUE,
      args: [],
    });

  await register(5);
  const stopFirst = await startWorker();
  await gather();
  await gather();
  await register(6);
  await gather();
  await stopFirst();
  const stopSecond = await startWorker();
  t.teardown(async () => {
    await stopSecond();
    await native.close();
  });
  const orders = await listOrders(db, { accountId, limit: 10 });
  t.deepEqual(
    orders.map(({ treeCount }) => treeCount),
    [6, 5],
  );
  for (const { id } of orders) {
    const handle = temporal.workflow.getHandle(plantingOrderId(id));
    await handle.result();
  }
  await eventually(async () =>
    (await listOrders(db, { accountId, limit: 10 })).every(
      ({ stage }) => stage === "planted_and_verified",
    ),
  );
  for (const { id } of orders) {
    const facts = await listFacts(db, id);
    t.deepEqual(
      facts.map(({ stage, state, source }) => `${stage} ${state} ${source}`),
      [
        "funds_distributed accepted partner",
        "allocated accepted partner",
        "planted accepted partner",
        "planted_and_verified accepted partner",
      ],
    );
  }
});
