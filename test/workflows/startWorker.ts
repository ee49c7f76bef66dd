import type { Client } from "@temporalio/client";
import { NativeConnection, Worker } from "@temporalio/worker";
import type { ExecutionContext } from "ava";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { installTemporalRuntime } from "../support/installTemporalRuntime.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

installTemporalRuntime();

/** Runs a Temporal worker. Returns a function that stops it. */
export const runWorker = async (namespace: string, taskQueue: string, activities: object) => {
  const connection = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue,
    workflowBundle: await bundleWorkflows(),
    activities,
  });
  const running = worker.run();
  return async () => {
    worker.shutdown();
    await running;
    await connection.close();
  };
};

/** Runs a Temporal worker for the task queue `test` or another one, in its own namespace, until the test ends. */
export const startWorker = async (
  t: Pick<ExecutionContext, "teardown">,
  activities: object,
  taskQueue = "test",
): Promise<Client> => {
  const { client, namespace } = await openNamespace(t);
  t.teardown(await runWorker(namespace, taskQueue, activities));
  return client;
};
