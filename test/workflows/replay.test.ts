import { readdir, readFile } from "node:fs/promises";
import test from "ava";
import { Worker } from "@temporalio/worker";
import { z } from "zod";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import * as workflows from "../../workflows/index.ts";
import { installTemporalRuntime } from "../support/installTemporalRuntime.ts";

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
  installTemporalRuntime();
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
