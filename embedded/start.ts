import { execFile } from "node:child_process";
import { once } from "node:events";
import { access, constants, mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { buildChildEnvironment } from "../config/config.ts";
import type { Config } from "../config/config.ts";
import { migrate } from "../db/migrate.ts";
import { StartupError } from "../program/startupError.ts";
import { createDemoOrganization } from "./createDemoOrganization.ts";
import { lockFolder } from "./lockFolder.ts";
import type { StartContext } from "./managedProcess.ts";
import { requireFreePort } from "./ports.ts";
import { startPostgres } from "./postgres.ts";
import { identifyProcess } from "./processIdentity.ts";
import { errorDetails } from "./errorDetails.ts";
import { startRole } from "./role.ts";
import type { Role, RunningRole } from "./role.ts";
import { removeRunFile, writeRunFile } from "./runFile.ts";
import { createSupervisor, stopLeftovers } from "./supervisor.ts";
import type { Supervisor } from "./supervisor.ts";
import { findTemporalCli } from "./temporalCli.ts";
import { startTemporalServer } from "./temporalServer.ts";

const run = promisify(execFile);

/** How long the `npm start` before this one may take to let go of the data folder. */
const LOCK_WAIT_MS = 5000;
const CONNECT_TIMEOUT_MS = 5000;

/** The two programs that do the work, in the order in which they are started. */
export type Roles = { readonly worker: Role; readonly api: Role };

export type Start = {
  /** Resolves when everything is up. */
  readonly up: Promise<void>;
  readonly supervisor: Supervisor;
  /** To be called last, when the supervisor has stopped everything. */
  readonly leave: () => Promise<void>;
};

type Output = {
  /** A line for people that belongs to the result: an address, a key. */
  readonly print: (line: string) => void;
  readonly onProgress: StartContext["onProgress"];
};

const printAddress = ({ print }: Output, name: string, address: string): void =>
  print(`${name.padEnd(16)} ${address}`);

const printMetrics = (output: Output, name: string, { urls }: RunningRole): void => {
  if (urls["metrics"] !== undefined) {
    printAddress(output, name, `${urls["metrics"]}/metrics`);
  }
};

/** The address without the password, which nobody should find in a terminal's history. */
const withoutPassword = (databaseUrl: string): string => {
  const url = new URL(databaseUrl);
  url.password = "";
  return url.href;
};

/** Not node's recursive mkdir, which never returns for a folder below /proc. */
const makeDataFolder = async (dataDir: string): Promise<string> => {
  const folder = resolve(dataDir);
  try {
    await run("mkdir", ["-p", "--", folder]);
    await access(folder, constants.W_OK | constants.X_OK);
    return folder;
  } catch (error) {
    throw new StartupError(
      `The data folder ${folder} cannot be used: ${(errorDetails(error).stderr ?? errorDetails(error).message).trim()}. Set DATA_DIR to a folder that you may write.`,
      { cause: error },
    );
  }
};

/** A port that somebody else has is better known before anything is started. */
const requireOwnPorts = async (config: Config): Promise<void> => {
  const purposes = {
    PORT: "standalone API",
    STORE_PORT: "store API",
    METRICS_PORT: "metrics page of the API",
    WORKER_METRICS_PORT: "metrics page of the worker",
  };
  for (const setting of ["PORT", "STORE_PORT", "METRICS_PORT", "WORKER_METRICS_PORT"] as const) {
    const port = config[setting];
    if (port !== "off") {
      await requireFreePort(config.HOST, port, setting, purposes[setting]);
    }
  }
};

const startDatabase = async (
  config: Config,
  dataDir: string,
  context: StartContext,
): Promise<string> => {
  if (config.DATABASE_URL !== undefined) {
    return config.DATABASE_URL;
  }
  const { url } = await startPostgres({
    folder: join(dataDir, "postgres"),
    port: config.EMBEDDED_POSTGRES_PORT,
    disposable: false,
    context,
  });
  return url;
};

const migrateDatabase = async (url: string): Promise<readonly string[]> => {
  try {
    return (await migrate(url)).applied;
  } catch (error) {
    const { message, code } = errorDetails(error);
    const cause =
      error instanceof Error && error.cause !== undefined ? errorDetails(error.cause) : {};
    const reason = [message || code, "message" in cause ? cause.message : ""].filter(Boolean);
    throw new StartupError(
      `The database ${withoutPassword(url)} cannot be used: ${reason.join(" ")}\n` +
        "If it is your own, start it or correct DATABASE_URL; without DATABASE_URL an embedded one is used.",
      { cause: error },
    );
  }
};

type Temporal = {
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string | null;
};

const reachTemporal = async (address: string): Promise<void> => {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
  } catch (error) {
    throw new StartupError(
      `Temporal at ${address} (TEMPORAL_ADDRESS) cannot be reached: ${errorDetails(error).message}. ` +
        "Start it or correct TEMPORAL_ADDRESS; without TEMPORAL_ADDRESS an embedded one is used.",
      { cause: error },
    );
  } finally {
    socket.destroy();
  }
};

const startTemporal = async (
  config: Config,
  dataDir: string,
  context: StartContext,
): Promise<Temporal> => {
  const namespace = config.TEMPORAL_NAMESPACE ?? "default";
  if (config.TEMPORAL_ADDRESS !== undefined) {
    await reachTemporal(config.TEMPORAL_ADDRESS);
    return { address: config.TEMPORAL_ADDRESS, namespace, uiUrl: null };
  }
  const cli = await findTemporalCli({ setting: config.TEMPORAL_CLI, context });
  const folder = join(dataDir, "temporal");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { address, uiUrl } = await startTemporalServer({
    cli,
    databaseFile: join(folder, `temporal-${cli.version}.db`),
    namespace,
    port: config.EMBEDDED_TEMPORAL_PORT,
    uiPort: config.EMBEDDED_TEMPORAL_UI_PORT,
    logFile: join(folder, "temporal.log"),
    context,
  });
  return { address, namespace, uiUrl };
};

/**
 * The roles use the Temporal that was started here. What else the environment and the user's own profile say of
 * Temporal (TLS, keys) is for one elsewhere; a profile of our own takes their place.
 */
const buildRoleEnvironment = async (
  config: Config,
  dataDir: string,
  databaseUrl: string,
  { address, namespace }: Temporal,
): Promise<NodeJS.ProcessEnv> => {
  if (config.TEMPORAL_ADDRESS !== undefined) {
    return buildChildEnvironment(null, { DATABASE_URL: databaseUrl });
  }
  const profile = join(dataDir, "temporal/client.toml");
  await writeFile(
    profile,
    `[profile.default]\naddress = "${address}"\nnamespace = "${namespace}"\n`,
  );
  return buildChildEnvironment(/^TEMPORAL_/u, {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_CONFIG_FILE: profile,
  });
};

const printFirstRequest = async (
  databaseUrl: string,
  apiUrl: string,
  isOnStripe: boolean,
  { print }: Output,
): Promise<void> => {
  const organization = await createDemoOrganization(databaseUrl);
  if (organization === null) {
    return;
  }
  print(`
This is the first start, so there is a demo organization (${organization.id}).
Its keys are shown only now:
  production key  ${organization.apiKeyProd}
  test key        ${organization.apiKeyTest}${
    isOnStripe
      ? "\nWhat the production key registers is billed once the organization has a Stripe customer: impact org update."
      : ""
  }
Plant a first tree:
  curl -sS -X POST ${apiUrl}/plant/trees -H 'Authorization: ${organization.apiKeyTest}' -H 'Content-Type: application/json' -d '{"count": 1}'
`);
};

const bringUp = async (
  config: Config,
  roles: Roles,
  dataDir: string,
  context: StartContext,
  output: Output,
): Promise<void> => {
  await stopLeftovers(dataDir, context.onProgress);
  await requireOwnPorts(config);
  const databaseUrl = await startDatabase(config, dataDir, context);
  const applied = await migrateDatabase(databaseUrl);
  printAddress(
    output,
    "database",
    config.DATABASE_URL === undefined
      ? `${withoutPassword(databaseUrl)} (with its password in ${join(dataDir, "run.json")})`
      : withoutPassword(databaseUrl),
  );
  if (applied.length > 0) {
    printAddress(output, "migrations", applied.join(", "));
  }

  const temporal = await startTemporal(config, dataDir, context);
  printAddress(output, "Temporal", `${temporal.address} (namespace ${temporal.namespace})`);
  if (temporal.uiUrl !== null) {
    printAddress(output, "Temporal web UI", temporal.uiUrl);
  }

  const environment = await buildRoleEnvironment(config, dataDir, databaseUrl, temporal);
  const [worker, api] = await Promise.all([
    startRole(roles.worker, environment, context),
    startRole(roles.api, environment, context),
  ]);
  printAddress(output, "worker", `process ${worker.process.identity.pid}`);
  printMetrics(output, "worker metrics", worker);
  const { standalone: apiUrl, store: storeUrl } = api.urls;
  const identity = identifyProcess(process.pid);
  if (apiUrl === undefined || storeUrl === undefined || identity === null) {
    throw new TypeError("A ready API has reported its URLs");
  }
  printAddress(output, "standalone API", apiUrl);
  printAddress(output, "store API", storeUrl);
  printMetrics(output, "API metrics", api);
  await writeRunFile(dataDir, {
    ...identity,
    databaseUrl,
    temporalAddress: temporal.address,
    temporalNamespace: temporal.namespace,
    temporalUiUrl: temporal.uiUrl,
    apiUrl,
    storeUrl,
  });
  await printFirstRequest(databaseUrl, apiUrl, config.STRIPE_SECRET_KEY !== undefined, output);
  output.print("ready");
};

/**
 * Starts everything that the configuration does not say to be elsewhere: PostgreSQL, Temporal, the worker, the API.
 * @returns at once when the data folder is ours, so that the caller can call it off while it comes up
 * @throws StartupError when the data folder cannot be had
 */
export const start = async (config: Config, roles: Roles, output: Output): Promise<Start> => {
  const dataDir = await makeDataFolder(config.DATA_DIR);
  const unlock = await lockFolder(dataDir, LOCK_WAIT_MS, () =>
    output.onProgress(`Waiting for another \`npm start\` to let go of ${dataDir} …`),
  );
  const supervisor = createSupervisor(dataDir, output.onProgress);
  const up = bringUp(config, roles, dataDir, supervisor.context, output);
  return {
    up,
    supervisor,
    leave: async () => {
      await removeRunFile(dataDir);
      await up.catch(() => {
        // Whoever waited for it knows; here it only has to be over.
      });
      unlock();
    },
  };
};
