import { fork } from "node:child_process";
import { z } from "zod";
import { StartupError } from "../program/startupError.ts";
import { manageProcess } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";

/** A program of the service that runs as a child process: its display name and main module. */
export type Role = { readonly name: string; readonly module: string };

export type RunningRole = {
  readonly process: ManagedProcess;
  /** The URLs that it serves, by name, as it reports them when it is ready. */
  readonly urls: Readonly<Record<string, string>>;
};

const readyMessage = z.object({
  type: z.literal("ready"),
  urls: z.record(z.string(), z.string()),
});

/** It usually takes seconds; a busy machine may need much longer. */
const READY_TIMEOUT_MS = 120_000;

/**
 * Starts a program and waits until it reports over IPC that it is ready. If this process dies, the program notices the
 * closed channel and shuts down. It has its own process group, so that Ctrl-C does not stop it out of order.
 * @throws StartupError if it exits or does not become ready in time
 */
export const startRole = async (
  { name, module }: Role,
  environment: NodeJS.ProcessEnv,
  context: StartContext,
): Promise<RunningRole> => {
  context.signal.throwIfAborted();
  const child = fork(module, {
    env: environment,
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const process = await manageProcess(
    name,
    child,
    // The worker gives running activities 20 seconds to finish.
    [{ signal: "SIGTERM", waitMs: 30_000 }],
    context,
  );
  const urls = await new Promise<Readonly<Record<string, string>>>((resolve, reject) => {
    const timeout = setTimeout(() => {
      reject(
        new StartupError(`The ${name} was not ready after ${READY_TIMEOUT_MS / 1000} seconds.`),
      );
    }, READY_TIMEOUT_MS);
    child.on("message", (message) => {
      const { data } = readyMessage.safeParse(message);
      if (data !== undefined) {
        resolve(data.urls);
      }
    });
    child.once("exit", (code, signal) => {
      reject(
        new StartupError(
          `The ${name} ended during startup (${signal ?? `exit code ${code}`}); see its output above.`,
        ),
      );
    });
    child.once("message", () => clearTimeout(timeout));
    child.once("exit", () => clearTimeout(timeout));
  });
  return { process, urls };
};
