import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmod,
  chown,
  mkdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import { findFreePort } from "../program/probePort.ts";
import { StartupError } from "../program/startupError.ts";
import { readLogTail, spawnWithLog } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";
import { requireFreePort } from "./ports.ts";
import { findPostgresBinaries, findServerUser, userMay } from "./postgresBinaries.ts";
import type { ServerUser } from "./postgresBinaries.ts";
import { identifyProcess, isRunning, stopProcess } from "./processIdentity.ts";
import type { StopSignals } from "./processIdentity.ts";
import { errorDetails } from "./errorDetails.ts";

export type EmbeddedPostgres = { readonly url: string; readonly process: ManagedProcess };

const run = promisify(execFile);

const HOST = "127.0.0.1";
const ROLE = "impact";
const DATABASE = "impact";
/** Crash recovery replays at most max_wal_size before the server answers. */
const UP_WITHIN_MS = 180_000;
const POLL_MS = 50;

/** SIGINT ends the connections and writes a checkpoint; SIGQUIT leaves that to the next start's recovery. */
const STOP_SIGNALS: StopSignals = [
  { signal: "SIGINT", waitMs: 20_000 },
  { signal: "SIGQUIT", waitMs: 5000 },
];

/** Nothing of our environment (PGDATA, LC_ALL, …) shall change what the server does. */
const ENVIRONMENT = { LC_ALL: "C", PATH: "/usr/bin:/bin" };

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  // Filling each new WAL file with zeros first stops all commits for some 50 ms. Nothing that was committed depends on
  // it: the flush of a commit writes the file's growth, too.
  wal_init_zero: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  // Statements here are short; compiling them costs more than it saves.
  jit: "off",
};

/** For data that a test throws away: what a crash of the machine would lose does not matter. */
const DISPOSABLE_SETTINGS: Readonly<Record<string, string>> = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
};

/**
 * How the server names its data folder. Where its user may not walk through the folders above (a private home, with us
 * as root), the working directory that we hand over still leads there.
 */
const nameDataFolder = (data: string, user: ServerUser | null): string => {
  if (user === null || userMay(user, "-x", data)) {
    return data;
  }
  if (process.platform === "linux") {
    return "/proc/self/cwd";
  }
  throw new StartupError(
    `PostgreSQL refuses to run as root, and the user that runs it instead cannot reach ${data}. ` +
      "Start as another user, or set DATA_DIR to a folder that every user may enter.",
  );
};

/** The folder that the server's user owns, so that it can work in it. */
const makeFolder = async (folder: string, user: ServerUser | null): Promise<void> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (user !== null) {
    await chown(folder, user.uid, user.gid);
  }
  await chmod(folder, 0o700);
};

/** Kept beside the data, readable for the server's user alone. */
const readPassword = async (folder: string, user: ServerUser | null): Promise<string> => {
  const file = join(folder, "password");
  const existing = await readFile(file, "utf8").catch(() => null);
  if (existing !== null) {
    return existing;
  }
  const password = randomBytes(24).toString("base64url");
  await writeFile(file, password, { mode: 0o600, flush: true });
  if (user !== null) {
    await chown(file, user.uid, user.gid);
  }
  return password;
};

/**
 * Makes the cluster beside its place and moves it there, so that an interrupted first start leaves none half made. It
 * takes a second and is not called off: killing initdb would leave its own child behind.
 */
const initialize = async (
  folder: string,
  data: string,
  initdb: string,
  user: ServerUser | null,
): Promise<void> => {
  const fresh = `${data}-new`;
  await rm(fresh, { recursive: true, force: true });
  await makeFolder(fresh, user);
  try {
    await run(
      initdb,
      [
        `--pgdata=${nameDataFolder(fresh, user)}`,
        `--username=${ROLE}`,
        "--pwfile=../password",
        "--auth-host=scram-sha-256",
        "--auth-local=reject",
        "--encoding=UTF8",
        // The built-in provider sorts alike on every machine, whatever its C library.
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
      ],
      { ...user, cwd: fresh, env: ENVIRONMENT },
    );
  } catch (error) {
    const { message, stderr } = errorDetails(error);
    throw new StartupError(
      `PostgreSQL's data folder could not be made in ${folder}:\n  ${(stderr ?? message).trim()}`,
      { cause: error },
    );
  }
  await rename(fresh, data);
};

/** Whether a process works in this folder, as a PostgreSQL server does in its data. */
const worksIn = async (pid: number, data: string): Promise<boolean> => {
  if (process.platform === "linux") {
    const folder = await readlink(`/proc/${pid}/cwd`).catch(() => null);
    return folder === (await realpath(data));
  }
  const { stdout } = await run("ps", ["-o", "command=", "-p", String(pid)]);
  return stdout.includes(data);
};

/**
 * The caller holds the data folder's lock, so a server that the pid file names is an orphan: it is ended. A file
 * without its server is removed, because PostgreSQL takes any process with that id for the server.
 */
const stopOrphan = async (data: string): Promise<void> => {
  const file = join(data, "postmaster.pid");
  const content = await readFile(file, "utf8").catch(() => null);
  if (content === null) {
    return;
  }
  const orphan = identifyProcess(Number.parseInt(content, 10));
  if (orphan !== null && (await worksIn(orphan.pid, data))) {
    await stopProcess(orphan, STOP_SIGNALS);
  }
  await rm(file, { force: true });
};

/** @returns a connection, or null while the server takes none yet; any other fault is thrown */
const tryToConnect = async (url: string): Promise<Client | null> => {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    return client;
  } catch (error) {
    const { code } = errorDetails(error);
    // 57P03: it is still starting up, perhaps recovering.
    if (code === "ECONNREFUSED" || code === "57P03") {
      return null;
    }
    throw error;
  }
};

const connectWhenUp = async (
  url: string,
  server: ManagedProcess,
  logFile: string,
): Promise<Client> => {
  const deadline = performance.now() + UP_WITHIN_MS;
  while (isRunning(server.identity) && performance.now() < deadline) {
    const client = await tryToConnect(url);
    if (client !== null) {
      return client;
    }
    await sleep(POLL_MS);
  }
  const fault = isRunning(server.identity) ? "did not come up in time" : "ended while it started";
  await server.stop();
  throw new StartupError(`PostgreSQL ${fault}:\n${readLogTail(logFile)}`);
};

const createDatabase = async (client: Client): Promise<void> => {
  const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [DATABASE]);
  if (rowCount === 0) {
    await client.query(`CREATE DATABASE ${DATABASE}`);
  }
};

/**
 * Starts the PostgreSQL of the npm package on the loopback address, with its data in `folder`, and creates the
 * database. The caller must hold the lock of `folder`: a server that still runs there is an orphan and is stopped.
 * @param port 0 takes any free port
 * @param disposable trades durability for speed; never for data that matter
 * @throws StartupError when the port is taken, or the server cannot run here
 */
export const startPostgres = async ({
  folder,
  port,
  disposable,
  context,
}: {
  readonly folder: string;
  readonly port: number;
  readonly disposable: boolean;
  readonly context: StartContext;
}): Promise<EmbeddedPostgres> => {
  const user = findServerUser();
  const binaries = await findPostgresBinaries(user);
  await makeFolder(folder, user);
  const data = join(folder, "data");
  await stopOrphan(data);
  await requireFreePort(HOST, port, "EMBEDDED_POSTGRES_PORT", "embedded PostgreSQL");
  const password = await readPassword(folder, user);
  const exists = await readFile(join(data, "PG_VERSION"), "utf8").catch(() => null);
  if (exists === null) {
    await initialize(folder, data, binaries.initdb, user);
  }

  const ownPort = port === 0 ? await findFreePort() : port;
  const logFile = join(folder, "postgres.log");
  const settings = { ...SETTINGS, ...(disposable ? DISPOSABLE_SETTINGS : {}) };
  const server = await spawnWithLog({
    name: "PostgreSQL",
    command: binaries.postgres,
    args: [
      "-D",
      nameDataFolder(data, user),
      ...Object.entries({ ...settings, port: ownPort }).map(
        ([name, value]) => `--${name}=${value}`,
      ),
    ],
    options: { ...user, cwd: data, env: ENVIRONMENT },
    logFile,
    stopSignals: STOP_SIGNALS,
    context,
  });
  const address = (database: string): string =>
    `postgres://${ROLE}:${password}@${HOST}:${ownPort}/${database}`;
  const client = await connectWhenUp(address("postgres"), server, logFile);
  try {
    await createDatabase(client);
  } finally {
    await client.end();
  }
  return { url: address(DATABASE), process: server };
};
