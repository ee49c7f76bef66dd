import test from "ava";
import { plantingOrderCreation } from "../../workflows/plantingOrderCreation.ts";
import { startWorker } from "./startWorker.ts";

test("one run starts the workflows of all waiting orders, however many they are", async (t) => {
  const pages = [[1, 2], [3, 4], [5, 6], [7]];
  const started: (readonly number[])[] = [];
  const client = await startWorker(t, {
    createPlantingOrders: () => Promise.resolve({ orders: 0 }),
    listOrdersToStart: () => Promise.resolve(pages[started.length] ?? []),
    markOrdersStarted: (orderIds: readonly number[]) => {
      started.push(orderIds);
      return Promise.resolve();
    },
    pollPlantingOrder: () => Promise.resolve({ isFinished: true, nextPollMs: 0 }),
  });
  await client.workflow.execute(plantingOrderCreation, {
    workflowId: "creation",
    taskQueue: "test",
    args: ["test", 2],
  });
  t.deepEqual(started, pages);
});

test("orders that wait for their workflows do not wait for the creation of others", async (t) => {
  const calls: (readonly number[] | "create")[] = [];
  const waiting = [[1, 2], [3]];
  const client = await startWorker(t, {
    createPlantingOrders: () => {
      calls.push("create");
      waiting.push([4]);
      return Promise.resolve({ orders: 1 });
    },
    listOrdersToStart: () => Promise.resolve(waiting.shift() ?? []),
    markOrdersStarted: (orderIds: readonly number[]) => {
      calls.push(orderIds);
      return Promise.resolve();
    },
    pollPlantingOrder: () => Promise.resolve({ isFinished: true, nextPollMs: 0 }),
  });
  await client.workflow.execute(plantingOrderCreation, {
    workflowId: "creation-of-others",
    taskQueue: "test",
    args: ["test"],
  });
  t.deepEqual(calls, [[1, 2], [3], "create", [4]]);
});
