import test from "ava";
import { pino } from "pino";
import { runWorker } from "../../worker/runWorker.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";

test("a worker that is stopped while its workflows are being bundled does not wait for them", async (t) => {
  process.env["TEMPORAL_ADDRESS"] = TEMPORAL_ADDRESS;
  const shutdown = new AbortController();
  const worker = runWorker(
    {
      activities: {},
      identity: "test",
      taskQueue: "unused",
      workflowBundle: new Promise(() => undefined),
      logger: pino({ level: "silent" }),
      logMissingNamespace: () => undefined,
    },
    shutdown.signal,
  );

  shutdown.abort();

  await t.notThrowsAsync(worker);
});
