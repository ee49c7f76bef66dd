import { readdir, readFile } from "node:fs/promises";
import { ApplicationFailure } from "@temporalio/common";
import test from "ava";
import { Worker } from "@temporalio/worker";
import { z } from "zod";
import { createShardActivities } from "../../activities/createShardActivities.ts";
import { usageShard } from "../../workflows/shards.ts";
import { eventually } from "../support/programs.ts";
import { startWorker } from "./startWorker.ts";
import { plantingOrderCreation } from "../../workflows/plantingOrderCreation.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import * as workflows from "../../workflows/index.ts";

test("a shard's activity sends heartbeats, and another worker continues up to 13 seconds after the last", async (t) => {
  const run = Promise.withResolvers<void>();
  const client = await startWorker(
    t,
    createShardActivities({
      runs: { run: () => run.promise, end: () => Promise.resolve() },
      stopping: new AbortController().signal,
    }),
  );
  const handle = await client.workflow.start(usageShard, {
    workflowId: "usage-shard",
    taskQueue: "test",
    args: [0],
  });
  t.teardown(() => run.reject(ApplicationFailure.nonRetryable("the test is over")));

  const findActivity = async () => (await handle.describe()).raw.pendingActivities?.[0];
  await eventually(async () => {
    const activity = await findActivity();
    return (
      Number(activity?.lastHeartbeatTime?.seconds) > Number(activity?.lastStartedTime?.seconds)
    );
  });
  t.is((await findActivity())?.attempt, 1);
  const { events } = await handle.fetchHistory();
  const scheduled = events?.find((event) => event.activityTaskScheduledEventAttributes);
  const { heartbeatTimeout, retryPolicy } = scheduled?.activityTaskScheduledEventAttributes ?? {};
  t.is(Number(heartbeatTimeout?.seconds), 10);
  t.is(Number(retryPolicy?.initialInterval?.seconds), 3);
});

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

const FOLDER = new URL("./histories/", import.meta.url);

const startedHistory = z.looseObject({
  events: z
    .tuple([
      z.looseObject({
        workflowExecutionStartedEventAttributes: z.looseObject({
          workflowType: z.object({ name: z.string() }),
        }),
      }),
    ])
    .rest(z.unknown()),
});

test("every workflow has recorded histories, and all of them replay, so a deployment breaks no running workflow", async (t) => {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(".json")).toSorted();
  const histories = await Promise.all(
    names.map(async (name) => ({
      workflowId: name,
      history: JSON.parse(await readFile(new URL(name, FOLDER), "utf8")) as unknown,
    })),
  );
  const types = histories.map(({ history }) => {
    const [started] = startedHistory.parse(history).events;
    return started.workflowExecutionStartedEventAttributes.workflowType.name;
  });
  t.deepEqual([...new Set(types)].toSorted(), Object.keys(workflows).toSorted());

  const replayed: string[] = [];
  for await (const { workflowId, error } of Worker.runReplayHistories(
    { workflowBundle: await bundleWorkflows() },
    histories,
  )) {
    t.is(error, undefined, workflowId);
    replayed.push(workflowId);
  }

  t.deepEqual(replayed.toSorted(), names);
});
