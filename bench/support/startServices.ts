import { fork } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { z } from "zod";
import { buildChildEnvironment } from "../../config/config.ts";
import { migrate } from "../../db/migrate.ts";
import { manageProcess } from "../../embedded/managedProcess.ts";
import { startPostgres } from "../../embedded/postgres.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { findTemporalCli } from "../../embedded/temporalCli.ts";
import { startTemporalServer } from "../../embedded/temporalServer.ts";

/** A program of ours that runs for a benchmark. */
export type Program = {
  readonly address: string;
  /** Where the stores' interface is, of a program that has it. */
  readonly storeAddress: string;
  readonly pid: number;
  readonly stop: () => Promise<void>;
};

/** The servers behind a benchmark run, as `npm start` sets them up: a crash loses nothing. */
export type Services = {
  readonly folder: string;
  /** The server's first database, empty. */
  readonly databaseUrl: string;
  /** Makes a migrated database and answers its URL. */
  readonly createDatabase: (name: string) => Promise<string>;
  readonly dropDatabase: (name: string) => Promise<void>;
  /** Starts one of our programs; its log is thrown away, but it is written. */
  readonly startProgram: (
    module: string,
    settings: Readonly<Record<string, string>>,
  ) => Promise<Program>;
  readonly startTemporal: () => Promise<string>;
  readonly stop: () => Promise<void>;
};

const readyMessage = z.object({
  type: z.literal("ready"),
  urls: z.record(z.string(), z.string()),
});

const OWN_SETTINGS = {
  PORT: "0",
  STORE_PORT: "0",
  METRICS_PORT: "off",
  WORKER_METRICS_PORT: "off",
  LOG_LEVEL: "info",
  LOG_FORMAT: "json",
};

export const startServices = async (): Promise<Services> => {
  const folder = await mkdtemp(join(tmpdir(), "impact-bench-"));
  // The database server may run as another user and must get through.
  await chmod(folder, 0o755);
  const { context, stopAll } = createSupervisor(folder, console.error);
  const stop = async (): Promise<void> => {
    await stopAll();
    await rm(folder, { recursive: true, force: true });
  };
  let temporal: Promise<string> | null = null;
  const startTemporal = async (): Promise<string> => {
    const { address } = await startTemporalServer({
      cli: await findTemporalCli({ setting: process.env["TEMPORAL_CLI"], context }),
      databaseFile: join(folder, "temporal.db"),
      namespace: "default",
      port: 0,
      uiPort: null,
      logFile: join(folder, "temporal.log"),
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
    const admin = async (statement: string): Promise<void> => {
      const client = new Client({ connectionString: postgres.url });
      await client.connect();
      try {
        await client.query(statement);
      } finally {
        await client.end();
      }
    };
    return {
      folder,
      databaseUrl: postgres.url,
      createDatabase: async (name) => {
        await admin(`CREATE DATABASE ${name}`);
        const url = new URL(postgres.url);
        url.pathname = name;
        await migrate(url.href);
        return url.href;
      },
      dropDatabase: (name) => admin(`DROP DATABASE ${name} WITH (FORCE)`),
      startProgram: async (module, settings) => {
        const child = fork(fileURLToPath(new URL(`../../${module}`, import.meta.url)), {
          env: buildChildEnvironment(/^(STRIPE|TEMPORAL|DATABASE)_/u, {
            ...OWN_SETTINGS,
            ...settings,
          }),
          stdio: ["ignore", "ignore", "inherit", "ipc"],
        });
        const managed = await manageProcess(
          module,
          child,
          [{ signal: "SIGTERM", waitMs: 30_000 }],
          context,
        );
        const urls = await new Promise<Readonly<Record<string, string>>>((resolve, reject) => {
          child.on("message", (message) => {
            const { data } = readyMessage.safeParse(message);
            if (data) {
              resolve(data.urls);
            }
          });
          child.once("exit", (code) => reject(new Error(`${module} ended (${code}).`)));
        });
        return {
          address: urls["standalone"] ?? "",
          storeAddress: urls["store"] ?? "",
          pid: managed.identity.pid,
          stop: managed.stop,
        };
      },
      startTemporal: () => (temporal ??= startTemporal()),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};
