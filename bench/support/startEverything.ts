import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { buildChildEnvironment } from "../../runtime/config/config.ts";
import { stopLeftovers } from "../../embedded/createSupervisor.ts";
import { readRunFile } from "../../runtime/runFile.ts";
import type { RunFile } from "../../runtime/runFile.ts";
import { ANY_PORTS, START } from "../../test/embedded/runStart.ts";

/** Runs `npm start` with a new data folder: PostgreSQL, Temporal, the worker and the API. */
export const startEverything = async (
  folder: string,
  settings: Readonly<Record<string, string>>,
): Promise<{ readonly run: RunFile; readonly stop: () => Promise<void> }> => {
  const dataFolder = join(folder, "everything");
  const child = spawn(process.execPath, [START, "--stop-with-parent"], {
    env: buildChildEnvironment(/^(?:STRIPE|TEMPORAL|DATABASE)_/u, {
      ...ANY_PORTS,
      ...settings,
      DATA_DIR: dataFolder,
    }),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
  });
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line === "ready") {
        resolve();
      }
    });
    void exited.then(() => reject(new Error("npm start ended before it was ready.")));
  });
  const run = await readRunFile(dataFolder);
  if (run === null) {
    throw new Error("npm start is ready without a run file.");
  }
  return {
    run,
    stop: async () => {
      child.kill("SIGTERM");
      await exited;
      await stopLeftovers(dataFolder, () => {});
    },
  };
};
