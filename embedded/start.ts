import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { migrate } from "../db/migrate.ts";
import { buildChildEnvironment } from "../runtime/config/config.ts";
import type { Config } from "../runtime/config/config.ts";
import { LIBPQ_VARIABLES, nameDatabase } from "../runtime/config/databaseUrl.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { impactCommand } from "../runtime/impactCommand.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import { writeRunFile } from "../runtime/runFile.ts";
import { findFreePort } from "../runtime/server/ports.ts";
import { serverUrl } from "../runtime/server/startServer.ts";
import { startPostgres } from "./startPostgres.ts";
import { startTemporalServer } from "./startTemporalServer.ts";
import { startRole } from "./supervisor.ts";
import type { StartContext } from "./supervisor.ts";

type Settings = Readonly<Record<string, string>>;

const WORKER = fileURLToPath(new URL("../worker/main.ts", import.meta.url));
const FIRST_ACCOUNTS = fileURLToPath(new URL("createFirstAccounts.ts", import.meta.url));
const API = fileURLToPath(new URL("../api/main.ts", import.meta.url));

/** Starts the embedded PostgreSQL, unless the configuration names a database. Returns the URLs of its owner and its programs. */
const startDatabase = async (config: Config, context: StartContext) => {
  const { DATABASE_URL: appUrl } = config;
  return appUrl === undefined
    ? startPostgres({
        folder: join(config.DATA_DIR, "postgres"),
        port: config.EMBEDDED_POSTGRES_PORT,
        disposable: false,
        context,
      })
    : { url: config.DATABASE_OWNER_URL ?? appUrl, appUrl };
};

/** Starts the embedded Temporal server, unless the configuration has the address of one, whose `uiUrl` is null. */
const startTemporal = async (config: Config, context: StartContext) => {
  const namespace = config.TEMPORAL_NAMESPACE ?? "default";
  if (config.TEMPORAL_ADDRESS !== undefined) {
    return { address: config.TEMPORAL_ADDRESS, namespace, uiUrl: null };
  }
  const { address, uiUrl } = await startTemporalServer({
    setting: config.TEMPORAL_CLI,
    folder: join(config.DATA_DIR, "temporal"),
    namespace,
    port: config.EMBEDDED_TEMPORAL_PORT,
    uiPort: config.EMBEDDED_TEMPORAL_UI_PORT,
    context,
  });
  return { address, namespace, uiUrl };
};

/** Empty settings hide those of the environment, and of a .env file that the programs read themselves. */
const hide = (...names: readonly string[]): Settings =>
  Object.fromEntries(names.map((name) => [name, ""]));

/** Returns the settings by which programs find the database with their own role. */
const databaseSettings = (config: Config, appUrl: string): Settings => ({
  DATABASE_URL: appUrl,
  ...hide("DATABASE_OWNER_URL", "DATABASE_URL_FILE", "DATABASE_OWNER_URL_FILE"),
  // libpq's variables are for another server than the embedded one.
  ...(config.DATABASE_URL === undefined && hide(...LIBPQ_VARIABLES)),
});

/** Returns the environment of the API and the worker, which use the same servers. */
const buildRoleEnvironment = (
  config: Config,
  given: Settings,
  appUrl: string,
  { address, namespace, uiUrl }: Awaited<ReturnType<typeof startTemporal>>,
): NodeJS.ProcessEnv => {
  const isEmbedded = uiUrl !== null;
  // Temporal's variables and the user's profile (TLS, keys) are for another server than the embedded one.
  return buildChildEnvironment(isEmbedded ? /^TEMPORAL_/u : null, {
    ...given,
    ...databaseSettings(config, appUrl),
    PORT: String(config.PORT),
    STORE_PORT: String(config.STORE_PORT),
    // No balancer waits for this machine's only API.
    DRAIN_SECONDS: "0",
    ...(isEmbedded && {
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      TEMPORAL_CONFIG_FILE: "",
    }),
  });
};

const hasAccounts = async (connectionString: string): Promise<boolean> => {
  const client = new Client({ connectionString, ssl: false });
  await client.connect();
  try {
    return (await client.query("SELECT FROM account LIMIT 1")).rowCount !== 0;
  } finally {
    await client.end();
  }
};

/** Adds the first accounts to a new embedded database, and prints their keys. */
const addFirstAccounts = async (
  config: Config,
  appUrl: string,
  apiUrl: string,
  demoFile: string | null,
  { signal }: StartContext,
): Promise<void> => {
  if (!(await hasAccounts(appUrl))) {
    const program = spawn(
      process.execPath,
      [...process.execArgv, FIRST_ACCOUNTS, apiUrl, ...(demoFile === null ? [] : [demoFile])],
      {
        env: buildChildEnvironment(null, databaseSettings(config, appUrl)),
        stdio: ["ignore", "inherit", "inherit"],
        signal,
      },
    );
    const [code] = await once(program, "exit");
    if (code !== 0) {
      throw new StartupError("The first accounts could not be added; see the output above.");
    }
  }
  // Written last, so that a demo that has it is complete.
  if (demoFile !== null && !existsSync(demoFile)) {
    throw new StartupError(
      `An earlier start with --demo was interrupted, and its data are incomplete. Delete the folder ${config.DATA_DIR}, and start again.`,
    );
  }
};

const printParts = (parts: Readonly<Record<string, string | null | undefined>>): void => {
  for (const [name, where] of Object.entries(parts)) {
    if (where) {
      console.log(`${name.padEnd(17)} ${where}`);
    }
  }
};

/**
 * Starts the worker and the API, and PostgreSQL and Temporal unless the configuration has their addresses.
 * @param settings replace those of the environment
 */
export const startAll = async (
  given: Config,
  settings: Settings,
  context: StartContext,
  isDemo: boolean,
): Promise<void> => {
  const config = {
    ...given,
    PORT: given.PORT || (await findFreePort()),
    STORE_PORT: given.STORE_PORT || (await findFreePort()),
  };
  const { DATA_DIR } = config;
  const apiUrl = serverUrl(config.HOST, config.PORT);
  const storeUrl = serverUrl(config.HOST, config.STORE_PORT);
  const isEmbedded = config.DATABASE_URL === undefined;
  /** What the pages of a demo show. */
  const demoFile = isDemo ? join(DATA_DIR, "demo.json") : null;
  const prepareDatabase = async () => {
    const { url, appUrl } = await startDatabase(config, context);
    await migrate(url, { appUrl });
    // Another database belongs to a deployment, which must not get an account by itself.
    await (isEmbedded && addFirstAccounts(config, appUrl, apiUrl, demoFile, context));
    return { url, appUrl };
  };
  const [{ url, appUrl }, temporal] = await Promise.all([
    prepareDatabase(),
    startTemporal(config, context),
  ]);

  // Before the API responds, so that the command line finds what a client can already use.
  await writeRunFile(DATA_DIR, {
    databaseUrl: appUrl,
    databaseOwnerUrl: url,
    temporalAddress: temporal.address,
    temporalNamespace: temporal.namespace,
    apiUrl,
    storeUrl,
  });
  const environment = buildRoleEnvironment(config, settings, appUrl, temporal);
  const [worker, api] = await Promise.all([
    startRole("worker", WORKER, environment, context),
    startRole("API", API, environment, context, demoFile === null ? [] : [demoFile]),
  ]);
  printParts({
    "open in a browser": isDemo ? `${config.PUBLIC_BASE_URL ?? browsableUrl(apiUrl)}/` : null,
    "standalone API": `${apiUrl} (described at ${browsableUrl(apiUrl)}/docs)`,
    "store API": `${storeUrl} (described at ${browsableUrl(storeUrl)}/docs)`,
    database: `${nameDatabase(appUrl)}${isEmbedded ? ` (passwords in ${join(DATA_DIR, "run.json")})` : ""}`,
    Temporal: `${temporal.address} (namespace ${temporal.namespace})`,
    "Temporal web UI": temporal.uiUrl,
    "API metrics": api["metrics"] && `${api["metrics"]}/metrics`,
    "worker metrics": worker["metrics"] && `${worker["metrics"]}/metrics`,
  });
  console.log(`
To issue an API key to an organization that \`impact org list\` shows:
  ${impactCommand(DATA_DIR)} key issue --org ID --mode live
ready`);
  context.onProgress("Press Ctrl-C to stop.");
};
