import { spawn } from "node:child_process";
import { access, chmod, constants, mkdir, mkdtemp, readdir, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { COMPILE_CACHE } from "../../runtime/config/enableCompileCache.js";
import { lockFolder } from "../../runtime/runFile.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import type { StartContext } from "../../embedded/supervisor.ts";
import { startTemporal } from "./startTemporal.ts";

/*
 * npm test: runs ava with a PostgreSQL and a Temporal server that live as long as the run. If TEST_DATABASE_URL or
 * TEST_TEMPORAL_ADDRESS is set, that server is used instead. Arguments are passed to ava.
 */

const PREFIX = "impact-test-";
/** The tests' temporary folder, so that an interrupted run leaves none of them behind. */
const SCRATCH = "scratch";
/** Linux's file system in memory. On a disk, creating and removing databases took a tenth of a run's CPU time. */
const MEMORY = "/dev/shm";
/** Enough for the databases of a run and a write-ahead log of its largest size. Containers often have 64 MiB. */
const MEMORY_NEEDED_BYTES = 4 * 1024 ** 3;
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

const inMemory = (folder: string): string => join(MEMORY, basename(folder));

/** Creates a folder for the database server's files, in memory if there is room. */
const createDataFolder = async (folder: string): Promise<string> => {
  const free = await statfs(MEMORY).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  );
  if (free < MEMORY_NEEDED_BYTES) {
    return folder;
  }
  await mkdir(inMemory(folder), { mode: 0o755 });
  return inMemory(folder);
};

const clear = async (folder: string): Promise<void> => {
  await rm(inMemory(folder), { recursive: true, force: true });
  await rm(folder, { recursive: true, force: true });
};

/** Clears the folders of earlier runs of this user that were killed. Their servers have ended with them. */
const sweep = async (): Promise<void> => {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(PREFIX));
  for (const name of names) {
    const folder = join(tmpdir(), name);
    try {
      // A run that has not locked its folder yet cannot be distinguished from a leftover.
      await access(join(folder, "running"), constants.W_OK);
      const unlock = lockFolder(folder, 0);
      await clear(folder);
      unlock();
    } catch {
      // It is running, or belongs to another user.
    }
  }
};

const runAva = (services: Readonly<Record<string, string>>): Promise<number> => {
  const ava = fileURLToPath(new URL("../../node_modules/ava/entrypoints/cli.js", import.meta.url));
  const child = spawn(process.execPath, [ava, ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { ...process.env, ...services },
  });
  // Ctrl-C reaches ava from the terminal, too; forwarding SIGINT would cut its report short.
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
  // The database server may run as another user, who must be able to enter the folder.
  await chmod(folder, 0o755);
  const unlock = lockFolder(folder, 0);
  const { context, stopAll } = createSupervisor(folder, console.error);
  const stop = (): void => void stopAll();
  for (const signal of SIGNALS) {
    process.on(signal, stop);
  }
  try {
    const [database, temporal] = await Promise.all([
      process.env["TEST_DATABASE_URL"] ?? startDatabase(await createDataFolder(folder), context),
      process.env["TEST_TEMPORAL_ADDRESS"] ??
        startTemporal(folder, context, { isInMemory: true }).then(({ address }) => address),
    ]);
    for (const signal of SIGNALS) {
      process.off(signal, stop);
    }
    // ava stops by itself on Ctrl-C; this process then stops the servers.
    process.on("SIGINT", () => {});
    const scratch = join(folder, SCRATCH);
    await mkdir(scratch);
    return await runAva({
      TEST_DATABASE_URL: database,
      TEST_TEMPORAL_ADDRESS: temporal,
      TMPDIR: scratch,
      NODE_COMPILE_CACHE: COMPILE_CACHE,
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
