import { join } from "node:path";
import type { Config } from "../runtime/config/config.ts";
import { migrate } from "../db/migrate.ts";
import { withoutPassword } from "../runtime/config/databaseUrl.rules.ts";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { findDemoData } from "./demo/demoData.ts";
import type { DemoData } from "./demo/demoData.ts";
import type { FilledDemo } from "./demo/fillDemo.ts";
import { fillNewDemo } from "./demo/fillDemo.ts";
import type { StartContext } from "./managedProcess.ts";
import { startPostgres } from "./startPostgres.ts";

export type Database = {
  readonly appUrl: string;
  readonly ownerUrl: string;
  /** What to do if it cannot be used. */
  readonly advice: string;
};

/** Starts the embedded PostgreSQL, unless the configuration names a database. */
export const startDatabase = async (
  config: Config,
  dataDir: string,
  context: StartContext,
): Promise<Database> => {
  if (config.DATABASE_URL !== undefined) {
    return {
      ownerUrl: config.DATABASE_OWNER_URL ?? config.DATABASE_URL,
      appUrl: config.DATABASE_URL,
      advice:
        "Start it or correct DATABASE_URL. Without DATABASE_URL, an embedded database is used.",
    };
  }
  const { url, appUrl, process } = await startPostgres({
    folder: join(dataDir, "postgres"),
    port: config.EMBEDDED_POSTGRES_PORT,
    disposable: false,
    context,
  });
  return { ownerUrl: url, appUrl, advice: `Its log is ${process.logFile}.` };
};

/** Runs the first work in the database; its errors say what to do. */
const useDatabase = async <Result>(
  { ownerUrl, advice }: Pick<Database, "ownerUrl" | "advice">,
  work: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StartupError) {
      throw error;
    }
    const { message, code } = errorDetails(error);
    const cause =
      error instanceof Error && error.cause !== undefined ? errorDetails(error.cause) : {};
    const reason = [message || code, "message" in cause ? cause.message : ""].filter(Boolean);
    throw new StartupError(
      `The database ${withoutPassword(ownerUrl)} cannot be used: ${reason.join(" ")}\n${advice}`,
      { cause: error },
    );
  }
};

type Demo = { readonly data: DemoData } | FilledDemo;

/** Migrates the database and, for a demo, fills a new one before anything else uses it. */
export const prepareDatabase = async (
  config: Config,
  { ownerUrl, appUrl, advice }: Database,
  isDemo: boolean,
  { onProgress, signal }: Pick<StartContext, "onProgress" | "signal">,
): Promise<{ readonly applied: readonly string[]; readonly demo: Demo | null }> => {
  const database = { ownerUrl, advice };
  // Before anything is written.
  const known = isDemo ? await useDatabase(database, () => findDemoData(config, ownerUrl)) : null;
  const { applied } = await useDatabase(database, () => migrate(ownerUrl, { appUrl, signal }));
  if (!isDemo || known !== null) {
    return { applied, demo: known && { data: known } };
  }
  signal.throwIfAborted();
  onProgress("Adding a year of demo data …");
  return { applied, demo: await fillNewDemo(config, appUrl) };
};
