import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Worker } from "@temporalio/worker";
import type { WorkflowBundleWithSourceMap } from "@temporalio/worker";
import type { Logger } from "pino";
import { readTemporalConfig } from "../program/temporalClient.ts";

const CONNECT_AGAIN_MS = 2000;

/** Activities mostly wait for a processor, so far more of them than cores may be under way. */
const ACTIVITIES_AT_ONCE = 200;

/** The workflows as the worker's sandbox runs them. */
export const bundleWorkflows = (): Promise<WorkflowBundleWithSourceMap> =>
  bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL("../workflows/index.ts", import.meta.url)),
    // The bundler's reports are of no use to anybody who runs this.
    logger: new DefaultLogger("WARN"),
  });

const connect = async (logger: Logger, signal: AbortSignal): Promise<NativeConnection | null> => {
  const { connectionOptions } = readTemporalConfig();
  let isTold = false;
  while (!signal.aborted) {
    try {
      return await NativeConnection.connect(connectionOptions);
    } catch (error) {
      if (!isTold) {
        logger.warn(
          { err: error, address: connectionOptions.address },
          "Temporal cannot be reached; usage is kept and will be reported later",
        );
        isTold = true;
      }
      await sleep(CONNECT_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
  return null;
};

/**
 * Works on a task queue until the signal comes, then finishes what is under way. It waits for a Temporal that is not
 * there yet; the SDK bridges later outages by itself.
 */
export const runWorker = async (
  {
    activities,
    taskQueue,
    bundling,
    logger,
  }: {
    readonly activities: object;
    readonly taskQueue: string;
    readonly bundling: ReturnType<typeof bundleWorkflows>;
    readonly logger: Logger;
  },
  signal: AbortSignal,
): Promise<void> => {
  const connection = await connect(logger, signal);
  if (!connection) {
    return;
  }
  try {
    const worker = await Worker.create({
      connection,
      namespace: readTemporalConfig().namespace,
      taskQueue,
      workflowBundle: await bundling,
      activities,
      maxConcurrentActivityTaskExecutions: ACTIVITIES_AT_ONCE,
      shutdownGraceTime: "10 seconds",
      shutdownForceTime: "20 seconds",
    });
    // Running first: a worker that never ran neither shuts down nor lets go of its connection.
    const running = worker.run();
    if (signal.aborted) {
      worker.shutdown();
    } else {
      signal.addEventListener("abort", () => worker.shutdown(), { once: true });
    }
    await running;
  } finally {
    await connection.close();
  }
};
