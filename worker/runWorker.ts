import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import {
  bundleWorkflowCode,
  DefaultLogger,
  IllegalStateError,
  NativeConnection,
  TransportError,
  Worker,
} from "@temporalio/worker";
import type { WorkflowBundleWithSourceMap } from "@temporalio/worker";
import type { Logger } from "pino";
import { StartupError } from "../program/startupError.ts";
import { readTemporalConfig } from "../program/temporalClient.ts";

const CONNECT_AGAIN_MS = 2000;

/** Often enough for whoever looks into the log, and not once for every attempt. */
const TELL_AGAIN_MS = 60_000;

/** Activities mostly wait for a processor, so far more of them than cores may be under way. */
const ACTIVITIES_AT_ONCE = 200;

/** The workflows as the worker's sandbox runs them. */
export const bundleWorkflows = (): Promise<WorkflowBundleWithSourceMap> =>
  bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL("../workflows/index.ts", import.meta.url)),
    // The bundler's reports are of no use to anybody who runs this.
    logger: new DefaultLogger("WARN"),
  });

type WorkerSettings = {
  readonly activities: object;
  readonly taskQueue: string;
  readonly bundling: ReturnType<typeof bundleWorkflows>;
  readonly logger: Logger;
};

/** Of a worker whose polls Temporal refuses for a minute the end fails or never comes, and its connection is lost with it. */
const REFUSED =
  "Temporal has refused this worker's polls for a minute, so it ends. Check the namespace and the key, then start it again.";

/** An orderly end takes less. */
const STUCK_AFTER_MS = 30_000;
const LOOK_EVERY_MS = 1000;

const rejectWhenStuck = async (worker: Worker, signal: AbortSignal): Promise<void> => {
  let runningAtMs = performance.now();
  for (;;) {
    await sleep(LOOK_EVERY_MS, undefined, { signal });
    if (worker.getState() === "RUNNING") {
      runningAtMs = performance.now();
    } else if (performance.now() - runningAtMs > STUCK_AFTER_MS) {
      throw new StartupError(REFUSED);
    }
  }
};

const workUntil = async (
  { activities, taskQueue, bundling }: WorkerSettings,
  signal: AbortSignal,
): Promise<void> => {
  const { connectionOptions, namespace } = readTemporalConfig();
  const connection = await NativeConnection.connect(connectionOptions);
  try {
    const worker = await Worker.create({
      connection,
      namespace,
      taskQueue,
      workflowBundle: await bundling,
      activities,
      maxConcurrentActivityTaskExecutions: ACTIVITIES_AT_ONCE,
      shutdownGraceTime: "10 seconds",
      shutdownForceTime: "20 seconds",
    });
    // Running first: a worker that never ran neither shuts down nor lets go of its connection.
    const running = worker.run();
    const stop = (): void => {
      // One that is ending by itself cannot be told to.
      if (worker.getState() === "RUNNING") {
        worker.shutdown();
      }
    };
    if (signal.aborted) {
      stop();
    } else {
      signal.addEventListener("abort", stop);
    }
    const watching = new AbortController();
    try {
      await Promise.race([running, rejectWhenStuck(worker, watching.signal)]);
    } catch (error) {
      throw error instanceof IllegalStateError
        ? new StartupError(REFUSED, { cause: error })
        : error;
    } finally {
      watching.abort();
      signal.removeEventListener("abort", stop);
    }
  } catch (error) {
    if (!(error instanceof StartupError)) {
      await connection.close();
    }
    throw error;
  }
  await connection.close();
};

/**
 * Works on a task queue until the signal comes, then finishes what is under way. It waits for a Temporal that is not
 * there yet, or not any more, or that refuses the connection: a key or a namespace may be put right while it waits.
 * @throws StartupError when Temporal has refused the polls of a worker that ran
 */
export const runWorker = async (settings: WorkerSettings, signal: AbortSignal): Promise<void> => {
  let toldAtMs = -TELL_AGAIN_MS;
  while (!signal.aborted) {
    try {
      await workUntil(settings, signal);
    } catch (error) {
      if (!(error instanceof TransportError)) {
        throw error;
      }
      if (performance.now() - toldAtMs >= TELL_AGAIN_MS) {
        settings.logger.warn(
          { err: error },
          "Temporal cannot be reached, or refuses; usage is kept and will be reported later",
        );
        toldAtMs = performance.now();
      }
      await sleep(CONNECT_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
};
