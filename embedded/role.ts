import { fork } from "node:child_process";
import { z } from "zod";
import { StartupError } from "../program/startupError.ts";
import { manageProcess } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";

/** One of our own programs that runs as a child: its name for people and its main module. */
export type Role = { readonly name: string; readonly module: string };

export type RunningRole = {
  readonly process: ManagedProcess;
  /** Where it can be reached, by what is to be reached there; as it says itself when it is up. */
  readonly urls: Readonly<Record<string, string>>;
};

const readyMessage = z.object({
  type: z.literal("ready"),
  urls: z.record(z.string(), z.string()),
});

/** Seconds usually; a busy machine may take long. */
const UP_WITHIN_MS = 120_000;

/**
 * Starts one of our programs and waits until it says over IPC that it is ready. It sees the channel close when we die,
 * whatever kills us, and shuts down then. Its own process group keeps the terminal's Ctrl-C from it, so that it is
 * stopped in its turn.
 * @throws StartupError when it ends or stays silent instead
 */
export const startRole = async (
  { name, module }: Role,
  environment: NodeJS.ProcessEnv,
  context: StartContext,
): Promise<RunningRole> => {
  context.calledOff.throwIfAborted();
  const child = fork(module, {
    env: environment,
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const process = await manageProcess(
    name,
    child,
    // The worker gives activities that run 20 seconds to finish.
    [{ signal: "SIGTERM", waitMs: 30_000 }],
    context,
  );
  const urls = await new Promise<Readonly<Record<string, string>>>((resolve, reject) => {
    const tooLate = setTimeout(() => {
      reject(new StartupError(`The ${name} was not ready within ${UP_WITHIN_MS / 1000} seconds.`));
    }, UP_WITHIN_MS);
    child.on("message", (message) => {
      const { data } = readyMessage.safeParse(message);
      if (data !== undefined) {
        resolve(data.urls);
      }
    });
    child.once("exit", (code, signal) => {
      reject(
        new StartupError(
          `The ${name} ended while it started (${signal ?? `exit code ${code}`}); it says above why.`,
        ),
      );
    });
    child.once("message", () => clearTimeout(tooLate));
    child.once("exit", () => clearTimeout(tooLate));
  });
  return { process, urls };
};
