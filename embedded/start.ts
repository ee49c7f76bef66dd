import { execFile } from "node:child_process";
import { once } from "node:events";
import { access, constants, mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { buildChildEnvironment } from "../runtime/config/config.ts";
import type { Config } from "../runtime/config/config.ts";
import { withoutPassword } from "../runtime/config/databaseUrl.rules.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import { serverUrl } from "../runtime/server/startServer.ts";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { requireHarmlessSettings } from "./demo/demoData.ts";
import { DEMO_SETTINGS } from "./demo/createDemoPlanting.ts";
import { lockFolder } from "./lockFolder.ts";
import type { StartContext, Role, RunningRole } from "./managedProcess.ts";
import { prepareDatabase, startDatabase } from "./prepareDatabase.ts";
import { requireFreePort } from "./requireFreePort.ts";
import { printDemo, printFirstRequest } from "./printFirstSteps.ts";
import type { Output } from "./printFirstSteps.ts";
import { identifyProcess } from "../runtime/processIdentity.ts";
import { startRole } from "./managedProcess.ts";
import { removeRunFile, writeRunFile } from "../runtime/runFile.ts";
import type { RunFile } from "../runtime/runFile.ts";
import { createSupervisor, stopLeftovers } from "./createSupervisor.ts";
import type { Supervisor } from "./createSupervisor.ts";
import { findTemporalCli } from "./findTemporalCli.ts";
import type { TemporalCli } from "./findTemporalCli.ts";
import { startTemporalServer, TEMPORAL_HOST } from "./startTemporalServer.ts";

const run = promisify(execFile);

/** How long to wait for a previous `npm start` that is stopping. */
const LOCK_WAIT_MS = 5000;
const CONNECT_TIMEOUT_MS = 5000;

const WORKER: Role = {
  name: "worker",
  module: fileURLToPath(new URL("../worker/main.ts", import.meta.url)),
};
const API: Role = {
  name: "API",
  module: fileURLToPath(new URL("../api/main.ts", import.meta.url)),
};

export type Start = {
  /** Resolves when everything runs. */
  readonly ready: Promise<void>;
  readonly supervisor: Supervisor;
  /** Removes the file that names what runs, for a process that does not wait for `release`. */
  readonly forget: () => Promise<void>;
  /** Releases the data folder; to be called after the supervisor has stopped everything. */
  readonly release: () => Promise<void>;
};

const printPart = ({ print }: Output, name: string, where: string): void =>
  print(`${name.padEnd(16)} ${where}`);

const printMetrics = (output: Output, name: string, { urls }: RunningRole): void => {
  if (urls["metrics"] !== undefined) {
    printPart(output, name, `${urls["metrics"]}/metrics`);
  }
};

/** Uses mkdir -p, because Node's recursive mkdir never returns for a folder below /proc. */
const makeDataFolder = async (dataDir: string): Promise<string> => {
  const folder = resolve(dataDir);
  try {
    await run("mkdir", ["-p", "--", folder]);
    await access(folder, constants.W_OK | constants.X_OK);
    return folder;
  } catch (error) {
    throw new StartupError(
      `The data folder ${folder} cannot be used: ${(errorDetails(error).stderr ?? errorDetails(error).message).trim()}. Set DATA_DIR to a folder that you can write to.`,
      { cause: error },
    );
  }
};

/** Reports ports in use before anything is started. The embedded PostgreSQL checks its own, after stopping an orphan. */
const requireFreePorts = async (config: Config): Promise<void> => {
  const { HOST, METRICS_HOST } = config;
  const purposes = [
    [HOST, "PORT", "standalone API"],
    [HOST, "STORE_PORT", "store API"],
    [METRICS_HOST, "METRICS_PORT", "metrics endpoint of the API"],
    [METRICS_HOST, "WORKER_METRICS_PORT", "metrics endpoint of the worker"],
    ...(config.TEMPORAL_ADDRESS === undefined
      ? ([
          [TEMPORAL_HOST, "EMBEDDED_TEMPORAL_PORT", "embedded Temporal server"],
          [
            config.EMBEDDED_TEMPORAL_UI_HOST,
            "EMBEDDED_TEMPORAL_UI_PORT",
            "embedded Temporal web UI",
          ],
        ] as const)
      : []),
  ] as const;
  for (const [host, setting, purpose] of purposes) {
    const port = config[setting];
    if (port !== "off") {
      await requireFreePort(host, port, setting, purpose);
    }
  }
};

type Temporal = {
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string | null;
};

const requireTemporal = async (address: string): Promise<void> => {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
  } catch (error) {
    throw new StartupError(
      `Temporal at ${address} (TEMPORAL_ADDRESS) cannot be reached: ${errorDetails(error).message}. ` +
        "Start it or correct TEMPORAL_ADDRESS. Without TEMPORAL_ADDRESS, an embedded server is used.",
      { cause: error },
    );
  } finally {
    socket.destroy();
  }
};

/** @returns the CLI that runs the embedded server; null if TEMPORAL_ADDRESS names a server, which can be reached */
const findTemporal = async (config: Config, context: StartContext): Promise<TemporalCli | null> => {
  if (config.TEMPORAL_ADDRESS === undefined) {
    return findTemporalCli({ setting: config.TEMPORAL_CLI, context });
  }
  await requireTemporal(config.TEMPORAL_ADDRESS);
  return null;
};

const startTemporal = async (
  config: Config,
  cli: TemporalCli | null,
  dataDir: string,
  context: StartContext,
): Promise<Temporal> => {
  const namespace = config.TEMPORAL_NAMESPACE ?? "default";
  if (cli === null) {
    return { address: config.TEMPORAL_ADDRESS ?? "", namespace, uiUrl: null };
  }
  const folder = join(dataDir, "temporal");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { address, uiUrl } = await startTemporalServer({
    cli,
    databaseFile: join(folder, `temporal-${cli.version}.db`),
    namespace,
    port: config.EMBEDDED_TEMPORAL_PORT,
    uiHost: config.EMBEDDED_TEMPORAL_UI_HOST,
    uiPort: config.EMBEDDED_TEMPORAL_UI_PORT,
    logFile: join(folder, "temporal.log"),
    context,
  });
  return { address, namespace, uiUrl };
};

/**
 * No balancer waits for this machine's only API. The programs connect with one role; the empty settings also hide those of
 * a .env file, which the programs read themselves.
 */
const ROLE_SETTINGS = {
  DRAIN_SECONDS: "0",
  DATABASE_OWNER_URL: "",
  DATABASE_URL_FILE: "",
  DATABASE_OWNER_URL_FILE: "",
};

/** libpq's variables are for another server than the embedded one. */
const EMBEDDED_DATABASE_SETTINGS = {
  PGSSLMODE: "",
  PGSSLROOTCERT: "",
  PGSSLCERT: "",
  PGSSLKEY: "",
  PGTARGETSESSIONATTRS: "",
};

/**
 * Points the roles at the embedded Temporal server. Temporal's variables in the environment and in the user's profile
 * (TLS, keys) are for another server, so a generated profile replaces them.
 */
const buildRoleEnvironment = async (
  config: Config,
  dataDir: string,
  databaseUrl: string,
  { address, namespace }: Temporal,
  defaults: Readonly<Record<string, string>>,
): Promise<NodeJS.ProcessEnv> => {
  const settings = {
    DATABASE_URL: databaseUrl,
    ...ROLE_SETTINGS,
    ...(config.DATABASE_URL === undefined ? EMBEDDED_DATABASE_SETTINGS : {}),
  };
  if (config.TEMPORAL_ADDRESS !== undefined) {
    return buildChildEnvironment(null, settings, defaults);
  }
  const profile = join(dataDir, "temporal/client.toml");
  await writeFile(
    profile,
    `[profile.default]\naddress = "${address}"\nnamespace = "${namespace}"\n`,
  );
  return buildChildEnvironment(
    /^TEMPORAL_/u,
    {
      ...settings,
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      TEMPORAL_CONFIG_FILE: profile,
    },
    defaults,
  );
};

type ApiUrls = Pick<RunFile, "apiUrl" | "storeUrl">;

/** Returns the URLs that the API will have; null if a port is chosen only when it starts. */
const expectedUrls = ({ HOST, PORT, STORE_PORT }: Config): ApiUrls | null =>
  PORT === 0 || STORE_PORT === 0
    ? null
    : { apiUrl: serverUrl(HOST, PORT), storeUrl: serverUrl(HOST, STORE_PORT) };

const printRoles = (output: Output, worker: RunningRole, api: RunningRole & ApiUrls): void => {
  const { apiUrl, storeUrl } = api;
  printPart(output, "worker", `process ${worker.process.identity.pid}`);
  printMetrics(output, "worker metrics", worker);
  printPart(output, "standalone API", `${apiUrl} (described at ${browsableUrl(apiUrl)}/docs)`);
  printPart(output, "store API", `${storeUrl} (described at ${browsableUrl(storeUrl)}/docs)`);
  printMetrics(output, "API metrics", api);
};

type StartOptions = {
  /** Whether a new database is filled with demo data. */
  readonly isDemo: boolean;
};

const startAll = async (
  config: Config,
  dataDir: string,
  context: StartContext,
  output: Output,
  options: StartOptions,
): Promise<void> => {
  if (options.isDemo) {
    requireHarmlessSettings(config);
  }
  await stopLeftovers(dataDir, context.onProgress);
  await requireFreePorts(config);
  const temporalCli = await findTemporal(config, context);
  const database = await startDatabase(config, dataDir, context);
  const { appUrl: databaseUrl } = database;
  const { applied, demo } = await prepareDatabase(config, database, options.isDemo, context);
  printPart(
    output,
    "database",
    config.DATABASE_URL === undefined
      ? `${withoutPassword(databaseUrl)} (passwords in ${join(dataDir, "run.json")})`
      : withoutPassword(databaseUrl),
  );
  if (applied.length > 0) {
    printPart(output, "migrations", applied.join(", "));
  }

  const temporal = await startTemporal(config, temporalCli, dataDir, context);
  printPart(output, "Temporal", `${temporal.address} (namespace ${temporal.namespace})`);
  if (temporal.uiUrl !== null) {
    printPart(output, "Temporal web UI", temporal.uiUrl);
  }

  const environment = await buildRoleEnvironment(
    config,
    dataDir,
    databaseUrl,
    temporal,
    options.isDemo ? DEMO_SETTINGS : {},
  );
  const identity = identifyProcess(process.pid);
  if (identity === null) {
    throw new TypeError("This process has no identity.");
  }
  const writeUrls = (urls: ApiUrls): Promise<void> =>
    writeRunFile(dataDir, {
      ...identity,
      databaseUrl,
      databaseOwnerUrl: database.ownerUrl,
      temporalAddress: temporal.address,
      temporalNamespace: temporal.namespace,
      ...urls,
    });
  // Before the API responds, so that the command line finds what a client can already use.
  const expected = expectedUrls(config);
  if (expected !== null) {
    await writeUrls(expected);
  }
  const startApi = async (): Promise<RunningRole & ApiUrls> => {
    const api = await startRole(API, environment, context);
    const { standalone: apiUrl, store: storeUrl } = api.urls;
    if (apiUrl === undefined || storeUrl === undefined) {
      throw new TypeError("The API reported no URLs.");
    }
    await writeUrls({ apiUrl, storeUrl });
    return { ...api, apiUrl, storeUrl };
  };
  const [worker, api] = await Promise.all([startRole(WORKER, environment, context), startApi()]);
  printRoles(output, worker, api);
  const { apiUrl } = api;
  if (demo !== null) {
    const publicUrl = config.PUBLIC_BASE_URL ?? browsableUrl(apiUrl);
    await printDemo(databaseUrl, { apiUrl, publicUrl }, demo, output);
  }
  // Only in a database of its own: another one belongs to a deployment, which must not get an account by itself.
  if (config.DATABASE_URL === undefined) {
    await printFirstRequest(databaseUrl, apiUrl, config.STRIPE_SECRET_KEY !== undefined, output);
  }
  output.print("ready");
  output.onProgress("Press Ctrl-C to stop.");
};

/**
 * Starts the worker and the API, and PostgreSQL and Temporal unless the configuration has their addresses.
 * @returns as soon as the data folder is locked, so that the caller can cancel the start
 * @throws StartupError if the data folder cannot be used
 */
export const start = async (
  config: Config,
  output: Output,
  options: StartOptions,
): Promise<Start> => {
  const dataDir = await makeDataFolder(config.DATA_DIR);
  const unlock = await lockFolder(dataDir, LOCK_WAIT_MS, () =>
    output.onProgress(`Waiting for another \`npm start\` to release ${dataDir} …`),
  );
  const supervisor = createSupervisor(dataDir, output.onProgress);
  const ready = startAll(config, dataDir, supervisor.context, output, options);
  return {
    ready,
    supervisor,
    forget: () => removeRunFile(dataDir),
    release: async () => {
      await removeRunFile(dataDir);
      await ready.catch(() => {
        // The caller handles this error; here it only has to be over.
      });
      unlock();
    },
  };
};
