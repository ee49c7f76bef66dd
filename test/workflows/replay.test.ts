import { readdir, readFile } from "node:fs/promises";
import test from "ava";
import { DefaultLogger, Runtime, Worker } from "@temporalio/worker";
import { bundleWorkflows } from "../../worker/runWorker.ts";

const FOLDER = new URL("./histories/", import.meta.url);

test("every workflow replays the histories on record, so a deployment breaks none that runs", async (t) => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(".json")).toSorted();
  const histories = await Promise.all(
    names.map(async (name) => ({
      workflowId: name,
      history: JSON.parse(await readFile(new URL(name, FOLDER), "utf8")) as unknown,
    })),
  );

  const replayed: string[] = [];
  for await (const { workflowId, error } of Worker.runReplayHistories(
    { workflowBundle: await bundleWorkflows() },
    histories,
  )) {
    t.is(error, undefined, workflowId);
    replayed.push(workflowId);
  }

  t.deepEqual(replayed.toSorted(), names);
  t.true(names.length >= 4);
});
