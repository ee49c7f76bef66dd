import { fork } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildChildEnvironment } from "../../runtime/config/config.ts";
import { migrate } from "../../db/migrate.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import type { StartContext } from "../../embedded/supervisor.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { startTemporalServer } from "../../embedded/startTemporalServer.ts";
import { awaitReady } from "../../runtime/readyMessage.ts";
import { query } from "./query.ts";

/** A running API, worker or baseline. */
export type Program = {
  readonly url: string;
  /** URL of the store-platform interface, empty if the program has none. */
  readonly storeUrl: string;
  readonly pid: number;
  readonly stop: () => Promise<void>;
};

/** The servers behind a benchmark run, with the same durability as under `npm start`. */
export type Services = {
  readonly folder: string;
  /** The server's default database, which is empty. */
  readonly databaseUrl: string;
  /** Creates and migrates a database, and returns its URL. */
  readonly createDatabase: (name: string) => Promise<string>;
  readonly dropDatabase: (name: string) => Promise<void>;
  /** Starts a program by its module. It writes its log as in production; the output is discarded. */
  readonly startProgram: (
    module: string,
    settings: Readonly<Record<string, string>>,
  ) => Promise<Program>;
  readonly startTemporal: () => Promise<string>;
  readonly stop: () => Promise<void>;
};

const SETTINGS = {
  // Nothing listens there: only workers need it.
  TEMPORAL_ADDRESS: "127.0.0.1:1",
  PORT: "0",
  STORE_PORT: "0",
  METRICS_PORT: "off",
  WORKER_METRICS_PORT: "off",
  LOG_LEVEL: "info",
  LOG_FORMAT: "json",
  DRAIN_SECONDS: "0",
};

/** Runs `stop` once and exits, after a signal or an error that nothing handles. */
const stopAtEnd = (stop: () => Promise<void>): void => {
  let isStopping = false;
  const exit = (code: number): void => {
    isStopping = true;
    void stop().finally(() => process.exit(code));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    // Under npm, one Ctrl-C arrives twice: from the terminal, and forwarded by npm.
    process.on(signal, () => isStopping || exit(130));
  }
  process.on("uncaughtException", (error) => {
    // Requests of a benchmark that is being stopped fail.
    if (!isStopping) {
      console.error(error);
      exit(1);
    }
  });
};

const startProgram = async (
  module: string,
  settings: Readonly<Record<string, string>>,
  context: StartContext,
): Promise<Program> => {
  context.signal.throwIfAborted();
  const child = fork(fileURLToPath(new URL(`../../${module}`, import.meta.url)), {
    env: buildChildEnvironment(/^(STRIPE|TEMPORAL|DATABASE)_/u, {
      ...SETTINGS,
      ...settings,
    }),
    detached: true,
    stdio: ["ignore", "ignore", "inherit", "ipc", context.pipe],
  });
  const [managed, urls] = await Promise.all([
    context.manage(module, child, { ask: () => child.kill(), waitMs: 30_000 }),
    awaitReady(child, module),
  ]);
  return {
    url: urls["standalone"] ?? "",
    storeUrl: urls["store"] ?? "",
    pid: managed.pid,
    stop: managed.stop,
  };
};

/** Starts PostgreSQL. It and everything that is started later ends with this process, also when a signal ends that. */
export const startServices = async (): Promise<Services> => {
  const folder = await mkdtemp(join(tmpdir(), "impact-bench-"));
  const { context, stopAll } = createSupervisor(folder, console.error);
  let stopped: Promise<void> | null = null;
  const stopOnce = async (): Promise<void> => {
    await stopAll();
    await rm(folder, { recursive: true, force: true });
  };
  const stop = (): Promise<void> => (stopped ??= stopOnce());
  stopAtEnd(stop);
  // The database server may run as another user, which must be able to enter the folder.
  await chmod(folder, 0o755);
  let temporal: Promise<string> | null = null;
  const startTemporal = async (): Promise<string> => {
    const { address } = await startTemporalServer({
      setting: process.env["TEMPORAL_CLI"],
      folder,
      namespace: "default",
      port: 0,
      uiPort: null,
      context,
    });
    return address;
  };
  try {
    const postgres = await startPostgres({
      folder: join(folder, "postgres"),
      port: 0,
      disposable: false,
      context,
    });
    const createDatabase = async (name: string): Promise<string> => {
      await query(postgres.url, `CREATE DATABASE ${name}`);
      const url = new URL(postgres.url);
      url.pathname = name;
      await migrate(url.href);
      return url.href;
    };
    return {
      folder,
      databaseUrl: postgres.url,
      createDatabase,
      dropDatabase: async (name) => {
        await query(postgres.url, `DROP DATABASE ${name} WITH (FORCE)`);
      },
      startProgram: (module, settings) => startProgram(module, settings, context),
      startTemporal: () => (temporal ??= startTemporal()),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};
