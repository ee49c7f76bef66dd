import { spawn } from "node:child_process";
import { access, chmod, constants, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { lockFolder } from "../../embedded/lockFolder.ts";
import type { StartContext } from "../../embedded/managedProcess.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { StartupError } from "../../program/startupError.ts";
import { createSupervisor, stopLeftovers } from "../../embedded/supervisor.ts";
import { findTemporalCli } from "../../embedded/temporalCli.ts";
import { startTemporalServer } from "../../embedded/startTemporalServer.ts";

/*
 * npm test: gives ava a PostgreSQL and a Temporal server that live as long as the run.
 * TEST_DATABASE_URL and TEST_TEMPORAL_ADDRESS, where set, name servers that are used instead.
 * Arguments go to ava.
 */

const PREFIX = "impact-test-";
/** Where the tests make their temporary folders, so that an interrupted run leaves none. */
const SCRATCH = "scratch";
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const startDatabase = async (folder: string, context: StartContext): Promise<string> => {
  const { url } = await startPostgres({
    folder: join(folder, "postgres"),
    port: 0,
    disposable: true,
    context,
  });
  return url;
};

const startTemporal = async (folder: string, context: StartContext): Promise<string> => {
  const cli = await findTemporalCli({ setting: process.env["TEMPORAL_CLI"], context });
  const { address } = await startTemporalServer({
    cli,
    databaseFile: null,
    namespace: "default",
    port: 0,
    uiPort: null,
    logFile: join(folder, "temporal.log"),
    context,
  });
  return address;
};

/** Removes a run's folder, after ending what the run and its tests have left running. */
const clear = async (folder: string): Promise<void> => {
  const scratch = await readdir(join(folder, SCRATCH)).catch(() => []);
  for (const name of scratch) {
    await stopLeftovers(join(folder, SCRATCH, name), console.error);
  }
  await stopLeftovers(folder, console.error);
  await rm(folder, { recursive: true, force: true });
};

/** Ends and removes what earlier runs of this user left behind when they were killed. */
const sweep = async (): Promise<void> => {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(PREFIX));
  for (const name of names) {
    const folder = join(tmpdir(), name);
    try {
      // Only a run that has started something can be told from one that is just beginning.
      await access(join(folder, "processes.json"), constants.W_OK);
      const unlock = await lockFolder(folder, 0, () => {});
      await clear(folder);
      unlock();
    } catch {
      // It runs, or is somebody else's.
    }
  }
};

/** @returns ava's exit code */
const runAva = (services: Readonly<Record<string, string>>): Promise<number> => {
  const ava = fileURLToPath(new URL("../../node_modules/ava/entrypoints/cli.js", import.meta.url));
  const child = spawn(process.execPath, [ava, ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { ...process.env, ...services },
  });
  // Ctrl-C reaches ava from the terminal as well; a second SIGINT of ours would cut its report short.
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => child.kill(signal));
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
};

const main = async (): Promise<number> => {
  await sweep();
  const folder = await mkdtemp(join(tmpdir(), PREFIX));
  // The database server may run as another user and must get through.
  await chmod(folder, 0o755);
  const unlock = await lockFolder(folder, 0, () => {});
  const { context, stopAll } = createSupervisor(folder, console.error);
  const stop = (): void => void stopAll();
  for (const signal of SIGNALS) {
    process.on(signal, stop);
  }
  try {
    const [database, temporal] = await Promise.all([
      process.env["TEST_DATABASE_URL"] ?? startDatabase(folder, context),
      process.env["TEST_TEMPORAL_ADDRESS"] ?? startTemporal(folder, context),
    ]);
    for (const signal of SIGNALS) {
      process.off(signal, stop);
    }
    // Without a handler Ctrl-C would end us before the servers; ava ends by itself.
    process.on("SIGINT", () => {});
    const scratch = join(folder, SCRATCH);
    await mkdir(scratch);
    return await runAva({
      TEST_DATABASE_URL: database,
      TEST_TEMPORAL_ADDRESS: temporal,
      TMPDIR: scratch,
    });
  } catch (error) {
    if (context.signal.aborted) {
      return 130;
    }
    if (!(error instanceof StartupError)) {
      throw error;
    }
    console.error(error.message);
    return 1;
  } finally {
    await stopAll();
    await clear(folder);
    unlock();
  }
};

process.exitCode = await main();
