import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import {
  DefaultLogger,
  IllegalStateError,
  NativeConnection,
  Runtime,
  TransportError,
  Worker,
} from "@temporalio/worker";
import type { NativeConnectionOptions, WorkerOptions, WorkflowBundle } from "@temporalio/worker";
import type { Logger } from "pino";
import { StartupError } from "../runtime/errors.rules.ts";
import { readTemporalConfig, findTemporalProxy } from "../runtime/temporalClient.ts";
import { pause } from "../runtime/waiting.ts";
import { createOutageLog } from "./repeatedCalls.ts";

const LEVELS = {
  TRACE: "trace",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
} as const;

/** Forwards the SDK's logs to the logger. Call it once, before any other use of the SDK. */
export const installTemporalRuntime = (logger: Logger): void => {
  Runtime.install({
    logger: new DefaultLogger("WARN", ({ level, message, meta }) =>
      logger[LEVELS[level]]({ ...meta }, message),
    ),
    // The program handles signals and stops the Temporal worker together with its other parts.
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: { core: "WARN", other: "WARN" } } },
  });
};

/** Returns the options of a worker's connection, which does not read the environment as the client's does. */
export const readTemporalProxy = (
  address: string | undefined,
): Pick<NativeConnectionOptions, "proxy"> => {
  const proxy = findTemporalProxy(address);
  if (proxy === null) {
    return {};
  }
  const { host, port } = proxy;
  const [username, password] = [proxy.username, proxy.password].map(decodeURIComponent);
  return {
    proxy: {
      type: "http-connect",
      targetHost: port === "" ? `${host}:80` : host,
      ...(username && { basicAuth: { username, password: password ?? "" } }),
    },
  };
};

const RECONNECT_INTERVAL_MS = 2000;

/** Activities mostly wait for a processor, so many more of them than CPU cores can run concurrently. */
export const MAX_CONCURRENT_ACTIVITIES = 200;

/**
 * Of each task queue. The SDK's default depends on the limit of V8's heap, so large machines cache more workflows than the
 * memory of a container holds.
 */
const MAX_CACHED_WORKFLOWS = 300;

type WorkerSettings = Required<
  Pick<
    WorkerOptions,
    "identity" | "activities" | "taskQueue" | "maxConcurrentWorkflowTaskExecutions"
  >
>;

const POLLS_REJECTED =
  "Temporal has rejected this worker's polls for a minute. Check the namespace and the API key, then restart the worker.";

/** The shutdown of a healthy worker takes less. */
const STUCK_AFTER_MS = 30_000;
const CHECK_INTERVAL_MS = 5000;

/** Rejects once the worker has not been running for too long: a worker whose polls are rejected may never finish its shutdown. */
const rejectWhenStuck = async (worker: Worker, signal: AbortSignal): Promise<void> => {
  let lastRunningAtMs = performance.now();
  for (;;) {
    await sleep(CHECK_INTERVAL_MS, undefined, { signal });
    if (worker.getState() === "RUNNING") {
      lastRunningAtMs = performance.now();
    } else if (performance.now() - lastRunningAtMs > STUCK_AFTER_MS) {
      throw new IllegalStateError("The worker is not running.");
    }
  }
};

const connectAndRun = async (
  settings: WorkerSettings,
  workflowBundle: WorkflowBundle,
  signal: AbortSignal,
): Promise<void> => {
  const { connectionOptions, namespace } = readTemporalConfig();
  const connection = await NativeConnection.connect({
    ...connectionOptions,
    ...readTemporalProxy(connectionOptions.address),
  });
  const ended = new AbortController();
  try {
    const worker = await Worker.create({
      connection,
      namespace,
      workflowBundle,
      ...settings,
      maxConcurrentActivityTaskExecutions: MAX_CONCURRENT_ACTIVITIES,
      maxConcurrentLocalActivityExecutions: MAX_CONCURRENT_ACTIVITIES,
      maxCachedWorkflows: MAX_CACHED_WORKFLOWS,
      shutdownGraceTime: "10 seconds",
      shutdownForceTime: "14 seconds",
    });
    // Started even if the signal is already aborted: a worker that never ran does not release its connection.
    const running = worker.run();
    const stop = (): void => {
      // shutdown() throws in every other state.
      if (worker.getState() === "RUNNING") {
        worker.shutdown();
      }
    };
    signal.addEventListener("abort", stop, { signal: ended.signal });
    if (signal.aborted) {
      stop();
    }
    await Promise.race([running, rejectWhenStuck(worker, ended.signal)]);
  } catch (error) {
    // The connection of a stuck worker cannot be closed; the process exits.
    if (error instanceof IllegalStateError) {
      throw new StartupError(POLLS_REJECTED, { cause: error });
    }
    await connection.close();
    throw error;
  } finally {
    ended.abort();
  }
  await connection.close();
};

/**
 * Returns a function that runs a Temporal worker until the signal is aborted, and then waits for running tasks. While Temporal
 * is down, rejects the connection or lacks the namespace, it retries: an operator may correct that meanwhile. It throws a
 * StartupError if Temporal rejects the polls of a connected worker.
 */
export const createRunWorker =
  (
    {
      logger,
      workflowBundle,
    }: { readonly logger: Logger; readonly workflowBundle: Promise<WorkflowBundle> },
    signal: AbortSignal,
  ) =>
  async (settings: WorkerSettings): Promise<void> => {
    // On a busy machine, bundling may take longer than a process that is to stop has left.
    await Promise.race([workflowBundle, signal.aborted || once(signal, "abort")]);
    const logOutage = createOutageLog(
      logger,
      "cannot connect to Temporal, or it lacks the namespace; retrying, usage waits in the database",
    );
    while (!signal.aborted) {
      try {
        await connectAndRun(settings, await workflowBundle, signal);
      } catch (error) {
        if (!(error instanceof TransportError)) {
          throw error;
        }
        logOutage(error);
        await pause(RECONNECT_INTERVAL_MS, signal);
      }
    }
  };
