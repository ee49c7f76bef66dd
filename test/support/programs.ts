import { fork, spawn } from "node:child_process";
import type { SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "@temporalio/client";
import type { ExecutionContext } from "ava";

export const TEMPORAL_ADDRESS = process.env["TEST_TEMPORAL_ADDRESS"] ?? "127.0.0.1:7233";

const ROOT = new URL("../../", import.meta.url);

/** Waits until a condition holds in another process; ava's timeout ends the wait if it never does. */
export const eventually = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  for (let delayMs = 10; !(await holds()); delayMs = Math.min(100, 2 * delayMs)) {
    await delay(delayMs);
  }
};

/** Runs a program of others in a process that is stopped after the test, or if the run is interrupted. */
export const spawnUntilEnd = (
  t: Pick<ExecutionContext, "teardown">,
  [program = "", ...args]: readonly string[],
  options: SpawnOptions,
  stopSignal: NodeJS.Signals = "SIGKILL",
) => {
  const child = spawn(program, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
  const log: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => log.push(text));
  const exited = once(child, "exit");
  const kill = (): boolean => child.kill(stopSignal);
  process.once("exit", kill);
  t.teardown(async () => {
    process.off("exit", kill);
    kill();
    await exited;
  });
  const logged = (): string => log.join("");
  return {
    /** Returns what it has written to its standard error. */
    logged,
    /** Waits until it is ready, or throws what it has written if it has ended. */
    untilReady: (isReady: () => Promise<boolean>): Promise<void> =>
      eventually(() => {
        if (child.exitCode !== null) {
          throw new Error(`${program} has ended: ${logged()}`);
        }
        return isReady();
      }),
  };
};

/** Opens a new Temporal namespace for one test, so that no worker of another test takes its tasks. */
export const openNamespace = async (t: Pick<ExecutionContext, "teardown">) => {
  // On demand, because most tests that import this module do not use Temporal.
  const { Client, Connection, ServiceError } = await import("@temporalio/client");
  const { msToTs } = await import("@temporalio/common/lib/time.js");
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  const namespace = `test-${crypto.randomUUID()}`;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs("1 day"),
  });
  const client = new Client({ connection, namespace });
  // The server's components see a new namespace one after the other.
  await eventually(async () => {
    try {
      await client.workflow.count();
      return true;
    } catch (error) {
      if (error instanceof ServiceError) {
        return false;
      }
      throw error;
    }
  });
  return { namespace, client };
};

/** Returns the status of a workflow, such as `RUNNING`; null if there is none of this id. */
export const readStatus = async (client: Client, workflowId: string): Promise<string | null> => {
  const { WorkflowNotFoundError } = await import("@temporalio/client");
  try {
    return (await client.workflow.getHandle(workflowId).describe()).status.name;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return null;
    }
    throw error;
  }
};

/** Returns whether a worker polls a task queue for workflow tasks. */
export const isPolled = async (temporal: Client, taskQueue: string): Promise<boolean> => {
  const { pollers } = await temporal.workflowService.describeTaskQueue({
    namespace: temporal.options.namespace,
    taskQueue: { name: taskQueue },
    // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that is not a dependency.
    taskQueueType: 1,
  });
  return pollers.length > 0;
};

/**
 * Starts a program of the service in a process that is killed after the test.
 * @throws what it has written to its standard error, if it ends before it is ready
 */
export const startProgram = async (
  t: Pick<ExecutionContext, "teardown">,
  module: "api/main.ts" | "worker/main.ts",
  settings: Readonly<Record<string, string>>,
) => {
  const child = fork(fileURLToPath(new URL(module, ROOT)), {
    env: {
      ...process.env,
      PORT: "0",
      STORE_PORT: "0",
      METRICS_PORT: "off",
      WORKER_METRICS_PORT: "off",
      LOG_LEVEL: "error",
      DRAIN_SECONDS: "0",
      TEMPORAL_ADDRESS,
      ...settings,
    },
    // Without ava's options, as in production.
    execArgv: [],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  /** What it has printed so far. */
  const lines: string[] = [];
  createInterface({ input: child.stdout ?? Readable.from([]) }).on("line", (line) => {
    lines.push(line);
    console.log(line);
  });
  /** What it has written to its standard error. */
  const errors: string[] = [];
  createInterface({ input: child.stderr ?? Readable.from([]) }).on("line", (line) => {
    errors.push(line);
    console.error(line);
  });
  const exited = once(child, "exit");
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
  };
  t.teardown(kill);
  const [ready] = await Promise.race([
    once(child, "message"),
    once(child, "close").then(([code]) => {
      throw new Error(`${module} ended with code ${String(code)}:\n${errors.join("\n")}`);
    }),
  ]);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the message that our programs send when they are ready.
  const { urls } = ready as { urls: Record<string, string> };
  return {
    process: child,
    urls,
    kill,
    lines,
    errors,
    /** Sends JSON to one of the API's interfaces. */
    post: (
      path: string,
      body: unknown,
      headers: Readonly<Record<string, string>>,
      name: "standalone" | "store" = "standalone",
    ) =>
      fetch(`${urls[name]}${path}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
  };
};
