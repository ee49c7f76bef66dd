import { fork } from "node:child_process";
import { awaitReady } from "../runtime/readyMessage.ts";
import { manageProcess } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";

/** A program of the service that runs as a child process: its display name and main module. */
export type Role = { readonly name: string; readonly module: string };

export type RunningRole = {
  readonly process: ManagedProcess;
  /** The URLs that it serves, by name, as it reports them when it is ready. */
  readonly urls: Readonly<Record<string, string>>;
};

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
  return { process, urls: await awaitReady(child, name) };
};
