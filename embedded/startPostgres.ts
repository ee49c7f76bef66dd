import { execFile } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { chmod, chown, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, DatabaseError, escapeLiteral } from "pg";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { choosePort } from "../runtime/server/ports.ts";
import { readLogTail, startServer } from "./supervisor.ts";
import type { StartContext } from "./supervisor.ts";
import { findPostgresBinaries, findServerUser, userMay } from "./findPostgresBinaries.ts";
import type { ServerUser } from "./findPostgresBinaries.ts";

const run = promisify(execFile);

const HOST = "127.0.0.1";
const OWNER = "impact";
const APP = "impact_app";
const DATABASE = "impact";
/** Crash recovery may replay up to max_wal_size before the server accepts connections. */
const READY_TIMEOUT_MS = 180_000;

/** The server does not inherit our environment (PGDATA, LC_ALL, …). */
const ENVIRONMENT = { LC_ALL: "C", PATH: "/usr/bin:/bin" };

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  // Zero-filling each new WAL file blocks all commits for about 50 ms. Durability does not depend on it, because the
  // flush of a commit also writes the file's new size.
  wal_init_zero: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  // The statements are short, so compiling them costs more than it saves.
  jit: "off",
};

/** For tests, whose data may be lost if the machine crashes. */
const DISPOSABLE_SETTINGS: Readonly<Record<string, string>> = {
  // Each of many tests at the same time has databases with pools of their own.
  max_connections: "600",
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  // For the roles that are created now. Otherwise each connection costs a client a millisecond of hashing.
  scram_iterations: "1",
  // A database lives for seconds. The launcher would start a process for one of them every second.
  autovacuum: "off",
};

/**
 * Returns the path by which the server finds its data folder. If its user cannot enter a parent folder (root's home
 * directory), the inherited working directory still works.
 */
const dataFolderPath = (data: string, user: ServerUser | null): string => {
  if (user === null || userMay(user, "-x", data)) {
    return data;
  }
  if (process.platform === "linux") {
    return "/proc/self/cwd";
  }
  throw new StartupError(
    `PostgreSQL refuses to run as root, and the user that runs it instead cannot reach ${data}. ` +
      "Start as another user, or set DATA_DIR to a folder that every user can enter.",
  );
};

const makeFolder = async (folder: string, user: ServerUser | null): Promise<void> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (user !== null) {
    await chown(folder, user.uid, user.gid);
  }
  await chmod(folder, 0o700);
};

/** Returns the password, which is stored beside the data and readable only for the server's user. */
const readPassword = async (folder: string, user: ServerUser | null): Promise<string> => {
  const file = join(folder, "password");
  const existing = await readFile(file, "utf8").catch(() => "");
  // A first start that was interrupted, or found the disk full, leaves an empty file, or one that is still root's.
  const password = existing === "" ? randomBytes(24).toString("base64url") : existing;
  if (existing === "") {
    await writeFile(file, password, { mode: 0o600, flush: true });
  }
  if (user !== null) {
    await chown(file, user.uid, user.gid);
  }
  return password;
};

/** Derives the password of another role, from which the owner's cannot be derived. */
const derivePassword = (password: string, role: string): string =>
  createHmac("sha256", password).update(role).digest("base64url");

/**
 * Creates the cluster in a temporary folder and renames it, so that an interrupted start leaves no partial cluster. It
 * takes a second and cannot be cancelled, because killing initdb would leave its child process behind.
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
        `--pgdata=${dataFolderPath(fresh, user)}`,
        `--username=${OWNER}`,
        "--pwfile=../password",
        "--auth-host=scram-sha-256",
        "--auth-local=reject",
        "--encoding=UTF8",
        // The built-in provider sorts the same on every machine, independent of its C library.
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
      ],
      { ...user, cwd: fresh, env: ENVIRONMENT },
    );
  } catch (error) {
    const { message, stderr } = errorDetails(error);
    throw new StartupError(
      `PostgreSQL's data folder could not be created in ${folder}:\n  ${(stderr ?? message).trim()}`,
      { cause: error },
    );
  }
  await rename(fresh, data);
};

/** Returns a connection, or null if the server does not accept one yet. */
const tryConnect = async (connectionString: string): Promise<Client | null> => {
  // PGSSLMODE is for another server.
  const client = new Client({ connectionString, ssl: false });
  // A server that ends closes the connection; the query reports it.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    // 57P03: the server is starting up or recovering. An error that is not PostgreSQL's: it does not listen, or it ends.
    if (error instanceof DatabaseError && error.code !== "57P03") {
      throw error;
    }
    return null;
  }
};

/** Creates the database and the role of the programs, unless they exist. */
const createDatabase = async (client: Client, appPassword: string): Promise<void> => {
  const exists = async (table: string, column: string, name: string): Promise<boolean> =>
    (await client.query(`SELECT FROM ${table} WHERE ${column} = $1`, [name])).rowCount === 1;
  if (!(await exists("pg_roles", "rolname", APP))) {
    await client.query(`CREATE ROLE ${APP} LOGIN PASSWORD ${escapeLiteral(appPassword)}`);
  }
  if (!(await exists("pg_database", "datname", DATABASE))) {
    await client.query(`CREATE DATABASE ${DATABASE}`);
  }
};

/**
 * Starts the PostgreSQL server of the npm package on the loopback interface with its data in `folder`, and creates the
 * database. The caller must know that no server uses the folder: it has the folder's lock, and has waited for leftovers.
 * @param port 0 for any free port
 * @param disposable trades durability for speed, for tests
 * @throws StartupError
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
}) => {
  const user = findServerUser();
  const binaries = await findPostgresBinaries(user);
  await makeFolder(folder, user);
  const data = join(folder, "data");
  // No server uses the data, so it is of one that was killed. PostgreSQL takes any process with its id for that one.
  await rm(join(data, "postmaster.pid"), { force: true });
  const actualPort = await choosePort(HOST, port, "EMBEDDED_POSTGRES_PORT");
  const password = await readPassword(folder, user);
  const exists = await readFile(join(data, "PG_VERSION"), "utf8").catch(() => null);
  if (exists === null) {
    await initialize(folder, data, binaries.initdb, user);
  }

  const logFile = join(folder, "postgres.log");
  const settings = { ...SETTINGS, ...(disposable ? DISPOSABLE_SETTINGS : {}), port: actualPort };
  const appPassword = derivePassword(password, APP);
  const urlOf = (role: string, rolePassword: string, database = DATABASE): string =>
    `postgres://${role}:${rolePassword}@${HOST}:${actualPort}/${database}`;
  try {
    const { server, ready: client } = await startServer(
      {
        name: "PostgreSQL",
        command: binaries.postgres,
        args: [
          "-D",
          dataFolderPath(data, user),
          ...Object.entries(settings).map(([name, value]) => `--${name}=${value}`),
        ],
        ...user,
        cwd: data,
        env: ENVIRONMENT,
        logFile,
        // It closes connections and writes a checkpoint. If the server is killed, the next start recovers.
        signal: "INT",
        stopMs: 20_000,
        readyMs: READY_TIMEOUT_MS,
        attempt: () => tryConnect(urlOf(OWNER, password, "postgres")),
      },
      context,
    );
    try {
      await createDatabase(client, appPassword);
    } finally {
      await client.end();
    }
    return {
      /** With the role that owns everything. */
      url: urlOf(OWNER, password),
      /** With the role of the programs. */
      appUrl: urlOf(APP, appPassword),
      process: server,
    };
  } catch (error) {
    if (error instanceof StartupError || context.signal.aborted) {
      throw error;
    }
    throw new StartupError(
      `PostgreSQL cannot be used: ${errorDetails(error).message}\n${readLogTail(logFile)}`,
      { cause: error },
    );
  }
};
