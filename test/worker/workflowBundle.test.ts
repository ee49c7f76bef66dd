import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "ava";
import { pino } from "pino";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { runWorker } from "../../worker/runWorker.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";

test("a stored bundle is used while the code is the same, and replaced if it is of other code", async (t) => {
  const folder = await makeTestFolder(t);
  const file = join(folder, "workflows.js");

  const { code } = await bundleWorkflows(file);
  t.true(code.includes("usageShard"));
  t.is(await readFile(file, "utf8"), code);

  const { mtimeMs } = await stat(file);
  t.is((await bundleWorkflows(file)).code, code);
  t.is((await stat(file)).mtimeMs, mtimeMs);

  await writeFile(file, `/* of other code */${code}`);
  t.is((await bundleWorkflows(file)).code, code);
  t.is(await readFile(file, "utf8"), code);
});

test("a bundle that cannot be stored is used all the same, and leaves no file", async (t) => {
  const folder = await makeTestFolder(t);
  const file = join(folder, "workflows.js");
  await mkdir(file);

  t.true((await bundleWorkflows(file)).code.includes("usageShard"));

  t.deepEqual(await readdir(folder), ["workflows.js"]);
});

test("a worker that is stopped while its workflows are being bundled does not wait for them", async (t) => {
  process.env["TEMPORAL_ADDRESS"] = TEMPORAL_ADDRESS;
  const shutdown = new AbortController();
  const worker = runWorker(
    {
      activities: {},
      identity: "test",
      taskQueue: "unused",
      hasLongTasks: false,
      workflowBundle: new Promise(() => undefined),
      logger: pino({ level: "silent" }),
    },
    shutdown.signal,
  );

  shutdown.abort();

  await t.notThrowsAsync(worker);
});
