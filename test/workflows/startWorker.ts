import type { Client } from "@temporalio/client";
import { NativeConnection, Worker } from "@temporalio/worker";
import type { ExecutionContext } from "ava";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { installTemporalRuntime } from "../support/installTemporalRuntime.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

installTemporalRuntime();

/** Runs a Temporal worker for the task queue `test` or another one, in its own namespace, until the test ends. */
export const startWorker = async (
  t: ExecutionContext,
  activities: object,
  taskQueue = "test",
): Promise<Client> => {
  const { client, namespace } = await openNamespace(t);
  const connection = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue,
    workflowBundle: await bundleWorkflows(),
    activities,
  });
  const running = worker.run();
  t.teardown(async () => {
    worker.shutdown();
    await running;
    await connection.close();
  });
  return client;
};
