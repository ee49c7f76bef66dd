import { readdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { ApplicationFailure } from "@temporalio/common";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import test from "ava";
import { Worker } from "@temporalio/worker";
import { z } from "zod";
import { createPerpetualActivities } from "../../activities/createPerpetualActivities.ts";
import { perpetualWork } from "../../workflows/perpetualWork.ts";
import { backgroundQueue } from "../../runtime/temporalNames.rules.ts";
import { eventually } from "../support/programs.ts";
import { DEPLOYMENT, RECORDINGS } from "./recordings.ts";
import { startWorker } from "./startWorker.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import * as workflows from "../../workflows/index.ts";

test("the activity of perpetual work sends heartbeats, and another worker continues up to 13 seconds after the last", async (t) => {
  const run = Promise.withResolvers<void>();
  const runs = { run: () => run.promise, end: () => Promise.resolve() };
  const client = await startWorker(
    t,
    createPerpetualActivities({
      runs: { "usage-sender": runs, "webhook-sender": runs, dispatcher: runs },
      stopping: new AbortController().signal,
    }),
  );
  const handle = await client.workflow.start(perpetualWork, {
    workflowId: "usage-sender",
    taskQueue: "test",
    args: ["usage-sender"],
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

test("a run that continues perpetual work has the time limit of the first one", async (t) => {
  const client = await startWorker(t, { workForAMinute: () => Promise.resolve() });
  const handle = await client.workflow.start(perpetualWork, {
    workflowId: "dispatcher",
    taskQueue: "test",
    args: ["dispatcher"],
  });
  t.teardown(() => handle.terminate());
  const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
  await eventually(async () => (await first.describe()).status.name === "CONTINUED_AS_NEW");

  const { raw } = await client.workflow.getHandle(handle.workflowId).describe();
  t.is(Number(raw.executionConfig?.workflowRunTimeout?.seconds), 600);
});

const FOLDER = new URL("./histories/", import.meta.url);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/*
 * npm run record-histories -- --match='*NAME' records a new history when a workflow gets a new path. After a release, keep the
 * recorded ones: workflows that started under them may still be running.
 */
if (process.env["WRITE_HISTORIES"] !== undefined) {
  for (const [name, { activities, run }] of Object.entries(RECORDINGS)) {
    test.serial(`record ${name}`, async (t) => {
      const handle = await run(await startWorker(t, activities, backgroundQueue(DEPLOYMENT)));
      const history = historyToJSON(await handle.fetchHistory())
        // Stack traces contain the folder of this checkout, and identities the name of the host.
        .replaceAll(ROOT, "/app/")
        .replaceAll(/"\d+@[^"]+"/gu, '"recorder"');
      await writeFile(new URL(`${name}.json`, FOLDER), `${history}\n`);
      t.pass();
    });
  }
}

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
