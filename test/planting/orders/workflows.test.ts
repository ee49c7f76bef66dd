import { WorkflowFailedError } from "@temporalio/client";
import { ActivityFailure } from "@temporalio/common";
import { z } from "zod";
import { createPlantingActivities } from "../../../activities/createPlantingActivities.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { listPlantingOrders } from "../../../modules/planting/orders.sql.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { sql } from "../../../db/sql.ts";
import type { PlantingOrder } from "../../../modules/planting/orders.sql.ts";
import {
  simulateAllocated,
  simulatePlanted,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../../modules/planting/withdrawPlantingFact.ts";
import { createPlantingOrders } from "../../../modules/planting/createPlantingOrders.ts";
import { startPlantingOrder } from "../../../worker/ensureWorkflows.ts";
import {
  plantingOrderCreationId,
  backgroundQueue,
  plantingOrderWorkflowId,
} from "../../../runtime/temporalNames.rules.ts";
import { plantingOrder, plantingOrderCreation } from "../../../workflows/planting.ts";
import { HOUR_MS } from "../../../runtime/durations.rules.ts";
import { createTestPlanting } from "../../support/planting.ts";
import { countCalls } from "../../support/countCalls.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registerFor } from "../../support/factories.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { fundsDistributed } from "../setUpPlanting.ts";
import { runWorker } from "../../workflows/startWorker.ts";

const test = testWithDatabase().serial;

/** The name in Temporal. */
const DEPLOYMENT = "test";
const NEVER = new AbortController().signal;

/** Creates an organization whose orders are handled by workflows on a Temporal server. */
const setUp = async (
  t: DatabaseTest,
  clock: Clock = systemClock,
  partner: "simulated" | "manual" = "manual",
) => {
  const { db } = t.context;
  const { namespace, client: temporal } = await openNamespace(t);
  const bulk = countCalls(db);
  const planting = createTestPlanting({ partner, stageMs: 300 });
  const activities = createPlantingActivities({
    db,
    bulkDb: bulk.db,
    clock,
    planting,
    startOrder: (orderId) => startPlantingOrder(temporal, DEPLOYMENT, orderId),
    plantingOrderIntervalMs: HOUR_MS,
  });
  const { id: accountId } = await createTestOrganization(db);
  return {
    temporal,
    workflowOf: (orderId: number) =>
      temporal.workflow.getHandle(plantingOrderWorkflowId(DEPLOYMENT, orderId)),
    countBulkCalls: bulk.count,
    startWorker: () => runWorker(namespace, backgroundQueue(DEPLOYMENT), activities),
    register: (count: number) => registerFor(db, accountId, { clock, count }),
    createOrders: (): Promise<void> =>
      temporal.workflow.execute(plantingOrderCreation, {
        workflowId: plantingOrderCreationId(DEPLOYMENT),
        taskQueue: backgroundQueue(DEPLOYMENT),
      }),
    /** Creates the orders without their workflows. */
    createOrdersOnly: (): Promise<number> => createPlantingOrders({ db, clock, planting }, NEVER),
    orders: (): Promise<readonly PlantingOrder[]> =>
      listPlantingOrders(db, { accountId, limit: 10 }),
  };
};

test("each order gets one workflow, which survives its worker and ends with the verification", async (t) => {
  const { workflowOf, startWorker, register, createOrders, orders } = await setUp(
    t,
    systemClock,
    "simulated",
  );
  await register(5);
  const stopFirst = await startWorker();
  await createOrders();
  await createOrders();
  await register(6);
  await createOrders();
  await stopFirst();
  t.teardown(await startWorker());
  const placed = await orders();
  const treeCounts = placed.map(({ treeCount }) => treeCount);
  t.deepEqual(treeCounts, [6, 5]);
  for (const { id } of placed) {
    await workflowOf(id).result();
  }
  const stages = (await orders()).map(({ stage }) => stage);
  t.deepEqual(stages, ["planted_and_verified", "planted_and_verified"]);
  for (const { id } of placed) {
    const facts = await listFacts(t.context.db, id);
    const shown = facts.map(({ stage, state, source }) => `${stage} ${state} ${source}`);
    t.deepEqual(shown, [
      "funds_distributed accepted partner",
      "allocated accepted partner",
      "planted accepted partner",
      "planted_and_verified accepted partner",
    ]);
  }
});

test("creating orders yields to what clients record", async (t) => {
  const { countBulkCalls, startWorker, register, createOrders, orders } = await setUp(t);
  t.teardown(await startWorker());
  await createOrders();
  const idleSteps = countBulkCalls();
  await register(5);
  await createOrders();
  t.is((await orders()).length, 1);
  // The end of the order's trees, and the transaction that creates it.
  t.is(countBulkCalls(), 2 * idleSteps + 2);
});

test("a lost workflow is started again after two missed polls, a running one is left alone", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const { workflowOf, startWorker, register, createOrders, orders } = await setUp(t, clock);
  t.teardown(await startWorker());
  const describe = async (id: number) => {
    const { runId, status } = await workflowOf(id).describe();
    return { runId, status: status.name };
  };
  const polledAt = (id: number) =>
    db.oneFirst(sql.type(z.strictObject({ polledAt: z.date() }))`
        SELECT polled_at AS "polledAt" FROM planting_order WHERE id = ${id}
      `);
  /** Waits for the timer of the next poll. */
  const waitForPoll = (id: number): Promise<void> =>
    eventually(async () => {
      const { events } = await workflowOf(id).fetchHistory();
      return events?.some(({ timerStartedEventAttributes: timer }) => timer) ?? false;
    });
  await register(5);
  await createOrders();
  await register(6);
  await createOrders();
  const [running = t.fail(), lost = t.fail()] = await orders();
  await waitForPoll(running.id);
  await waitForPoll(lost.id);
  const runningBefore = await describe(running.id);
  await workflowOf(lost.id).terminate();
  const lostBefore = await describe(lost.id);
  t.is(lostBefore.status, "TERMINATED");

  clock.set("2026-05-01T22:00:00.000Z");
  await createOrders();
  t.deepEqual(await describe(lost.id), lostBefore);

  clock.set("2026-05-01T22:00:01.000Z");
  await createOrders();
  const again = await describe(lost.id);
  t.is(again.status, "RUNNING");
  t.not(again.runId, lostBefore.runId);
  t.deepEqual(await describe(running.id), runningBefore);
  t.deepEqual(await polledAt(running.id), clock.now());
  await waitForPoll(lost.id);
});

test("an order that is corrected just after its workflow has ended has a workflow again after the next run", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const { workflowOf, startWorker, register, createOrders, ...scene } = await setUp(t, clock);
  t.teardown(await startWorker());
  await register(5);
  await scene.createOrdersOnly();
  const [order = t.fail()] = await scene.orders();
  await recordPlantingFacts(
    { db, clock },
    order.id,
    [
      fundsDistributed(order.publicId, new Date("2026-05-01T07:00:00.000Z")),
      simulateAllocated(order, new Date("2026-05-01T08:00:00.000Z")),
      simulatePlanted(order, new Date("2026-05-01T09:00:00.000Z")),
    ],
    "operator",
  );
  await createOrders();
  const workflow = workflowOf(order.id);
  await workflow.result();
  clock.set("2026-05-03T10:00:00.000Z");
  await createOrders();
  t.is((await workflow.describe()).status.name, "COMPLETED", "it is not lost");

  const planted = (await listFacts(db, order.id)).find(({ stage }) => stage === "planted");
  await withdrawPlantingFact(
    { db, clock, actor: { kind: "operator", name: "ann", reason: null } },
    planted?.id ?? 0,
    "photos of another site",
  );
  await createOrders();

  t.is((await workflow.describe()).status.name, "RUNNING");
});

test("the workflow of an unknown order fails, one of an unconfigured partner retries", async (t) => {
  const { db } = t.context;
  const { temporal, startWorker, register, createOrders, orders } = await setUp(t);
  t.teardown(await startWorker());
  const start = (orderId: number, workflowId: string) =>
    temporal.workflow.start(plantingOrder, {
      workflowId,
      taskQueue: backgroundQueue(DEPLOYMENT),
      args: [orderId],
    });
  const unknown = await start(2_000_000_000, "unknown-order");
  const failure = await t.throwsAsync(unknown.result(), { instanceOf: WorkflowFailedError });
  t.true(failure?.cause instanceof ActivityFailure);
  const cause = { type: "record_not_found", message: "failed to find planting order" };
  t.like(failure?.cause?.cause, cause);

  await register(5);
  await createOrders();
  const [order = t.fail()] = await orders();
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order SET partner = 'treemapper' WHERE id = ${order.id}
  `);
  const waiting = await start(order.id, "order-of-another-partner");
  await eventually(async () => {
    const { raw } = await waiting.describe();
    return (raw.pendingActivities?.[0]?.attempt ?? 0) >= 2;
  });
  t.is((await waiting.describe()).status.name, "RUNNING");
});
