import { spawn } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ManagedProcess } from "../../embedded/managedProcess.ts";
import { startPostgres } from "../../embedded/postgres.ts";
import { StartError } from "../../embedded/startError.ts";
import { findTemporalCli } from "../../embedded/temporalCli.ts";
import { startTemporalServer } from "../../embedded/temporalServer.ts";

/*
 * npm test: gives ava a PostgreSQL and a Temporal server that live as long as the run.
 * TEST_DATABASE_URL and TEST_TEMPORAL_ADDRESS, where set, name servers that are used instead.
 * Arguments go to ava.
 */

const startDatabase = async (folder: string, started: ManagedProcess[]): Promise<string> => {
  const { url } = await startPostgres({
    folder: join(folder, "postgres"),
    port: 0,
    disposable: true,
    onSpawn: (child) => started.push(child),
  });
  return url;
};

const startTemporal = async (folder: string, started: ManagedProcess[]): Promise<string> => {
  const cli = await findTemporalCli({
    setting: process.env["TEMPORAL_CLI"],
    onProgress: (line) => console.error(line),
  });
  const { address } = await startTemporalServer({
    cli,
    databaseFile: null,
    namespace: "default",
    port: 0,
    uiPort: null,
    logFile: join(folder, "temporal.log"),
    onSpawn: (child) => started.push(child),
  });
  return address;
};

/** @returns ava's exit code */
const runAva = async (services: Readonly<Record<string, string>>): Promise<number> => {
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
  const folder = await mkdtemp(join(tmpdir(), "impact-test-"));
  // The database server may run as another user and must get through.
  await chmod(folder, 0o755);
  const started: ManagedProcess[] = [];
  try {
    const [database, temporal] = await Promise.all([
      process.env["TEST_DATABASE_URL"] ?? startDatabase(folder, started),
      process.env["TEST_TEMPORAL_ADDRESS"] ?? startTemporal(folder, started),
    ]);
    return await runAva({ TEST_DATABASE_URL: database, TEST_TEMPORAL_ADDRESS: temporal });
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    console.error(error.message);
    return 1;
  } finally {
    await Promise.all(started.map((child) => child.stop()));
    await rm(folder, { recursive: true, force: true });
  }
};

process.on("SIGINT", () => {
  // Without a handler the servers would outlive us; ava ends by itself.
});
process.exitCode = await main();
