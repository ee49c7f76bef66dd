import { ApplicationFailure, ApplicationFailureCategory } from "@temporalio/common";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import test from "ava";
import { bundleWorkflows } from "../../worker/runWorker.ts";
import { usageSender, wakeSignal } from "../../workflows/usageSender.ts";
import { eventually, openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

Runtime.install({ logger: new DefaultLogger("ERROR") });

const STREAM = {
  accountId: "01920000-0000-7000-8000-000000000000",
  mode: "live",
  meter: "tree",
} as const;

test("a sender that gets nowhere goes on in another run, however often it is woken", async (t) => {
  const { client, namespace } = await openNamespace(t);
  const connection = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  let isHindered = true;
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue: "test",
    workflowBundle: await bundleWorkflows(),
    activities: {
      drainUsage: () => {
        if (isHindered) {
          throw ApplicationFailure.create({
            message: "not now",
            type: "usage_retry",
            category: ApplicationFailureCategory.BENIGN,
          });
        }
        return Promise.resolve({ moreIsReady: false });
      },
    },
  });

  await worker.runUntil(async () => {
    const workflowId = "usage-sender/test";
    const first = await client.workflow.start(usageSender, {
      workflowId,
      taskQueue: "test",
      args: [STREAM, "3 seconds"],
    });
    const current = client.workflow.getHandle(workflowId);
    await eventually(async () => {
      await current.signal(wakeSignal);
      return (await current.describe()).runId !== first.firstExecutionRunId;
    });
    isHindered = false;
    await eventually(async () => (await current.describe()).raw.pendingActivities?.length === 0);
    t.is((await current.describe()).status.name, "RUNNING");
    await current.terminate();
  });
});
