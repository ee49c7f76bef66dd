import { Client } from "pg";
import type { ClientBase, ClientConfig } from "pg";
import { connectTimeoutOf, readDatabaseServers } from "./databaseServers.ts";

/** How long PostgreSQL lets a session be busy, or idle in a transaction; 0 without a limit. */
export type SessionLimits = {
  readonly statementTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
};

/** Of a pool that does not ask for others. */
export const DEFAULT_LIMITS: SessionLimits = {
  statementTimeoutMs: 60_000,
  idleInTransactionTimeoutMs: 60_000,
};

const isWithin = (settingMs: number, limitMs: number): boolean =>
  settingMs > 0 && settingMs <= limitMs;

/** Returns whether the settings of a role or a database are at least as strict as a pool's limits. */
export const areWithin = (settings: SessionLimits, limits: SessionLimits): boolean =>
  isWithin(settings.statementTimeoutMs, limits.statementTimeoutMs) &&
  isWithin(settings.idleInTransactionTimeoutMs, limits.idleInTransactionTimeoutMs);

/** A connection pooler between this program and PostgreSQL, such as PgBouncer in transaction mode. */
export type Pooler = {
  /** Whether a named statement can be executed on whatever connection the pooler chooses. */
  readonly keepsPreparedStatements: boolean;
  /** The limits of every session, as role or database settings. */
} & SessionLimits;

/** The pooler cannot be used as it is configured; the message says what to change. */
export class PoolerError extends Error {
  override readonly name = "PoolerError";
}

/** PostgreSQL's code for a prepared statement that does not exist. */
const UNKNOWN_STATEMENT = "26000";
/** The server may be busy, but one that does not respond must not delay the connection to another. */
const RESPONSE_TIMEOUT_MS = 10_000;
/** A pooler with a single connection lets the first session of the inspection wait while the second one has it. */
const WAIT_MS = 2000;
/** On a busy pooler, the statement often stays on its connection although that was free for others in between. */
const MAXIMUM_ATTEMPTS = 30;

const connect = async (config: ClientConfig): Promise<Client> => {
  const client = new Client(config);
  // A pooler may close the connection after an error; the query reports it.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    const parameter =
      error instanceof Error &&
      /unsupported startup parameter[^:]*: (?<name>[\w.]+)/u.exec(error.message)?.groups?.["name"];
    throw parameter
      ? new PoolerError(
          `the pooler refuses the start-up parameter ${parameter}: remove it from the URL, or add it to ignore_startup_parameters in pgbouncer.ini`,
          { cause: error },
        )
      : error;
  }
  return client;
};

/**
 * Returns whether the session's connection is one of a pooler's. A server reports its own process when it is connected
 * to; a pooler reports a number that it has made up.
 */
export const isPooled = async (client: ClientBase): Promise<boolean> => {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  // The library's types lack the number.
  return !("processID" in client && client.processID === rows[0]?.pid);
};

const readLimits = async (client: Client) => {
  const { rows } = await client.query<Record<"statement" | "idle", number>>(`
    SELECT
      (SELECT setting::integer FROM pg_settings WHERE name = 'statement_timeout') AS statement,
      (SELECT setting::integer FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') AS idle
  `);
  return {
    statementTimeoutMs: rows[0]?.statement ?? 0,
    idleInTransactionTimeoutMs: rows[0]?.idle ?? 0,
  };
};

const requireTransactions = async (client: Client): Promise<void> => {
  try {
    await client.query("BEGIN");
    await client.query("COMMIT");
  } catch (error) {
    throw new PoolerError(
      "the pooler accepts no transactions: set pool_mode = transaction in pgbouncer.ini",
      { cause: error },
    );
  }
};

/**
 * Executes a named statement until it is on another connection than the one on which it was prepared. Meanwhile another
 * session is in a transaction: usually on the first connection, but other programs may get that before. If the statement
 * stays where it is, as in session mode, the result is false, which is always safe.
 */
const inspectStatements = async (client: Client, config: ClientConfig): Promise<boolean> => {
  const statement = {
    name: `impact_inspection_${crypto.randomUUID()}`,
    text: "SELECT pg_backend_pid() AS pid",
  };
  // The library's types lack the timeout of a single query.
  const impatient = { ...statement, query_timeout: WAIT_MS };
  const other = await connect(config);
  try {
    const first = await client.query<{ pid: number }>(statement);
    for (let attempt = 0; attempt < MAXIMUM_ATTEMPTS; attempt += 1) {
      await other.query("BEGIN");
      const again = await client.query<{ pid: number }>(impatient);
      if (again.rows[0]?.pid !== first.rows[0]?.pid) {
        return true;
      }
      await other.query("ROLLBACK");
    }
    return false;
  } catch (error) {
    if (
      error instanceof Error &&
      (("code" in error && error.code === UNKNOWN_STATEMENT) ||
        error.message === "Query read timeout")
    ) {
      return false;
    }
    throw error;
  } finally {
    await other.end();
  }
};

/**
 * Connects twice and returns what the pooler between this program and the server can do, or null if there is none.
 * @param config without start-up parameters, which a pooler may refuse
 * @throws PoolerError
 */
export const inspectPooler = async (config: ClientConfig): Promise<Pooler | null> => {
  const patient = { ...config, query_timeout: RESPONSE_TIMEOUT_MS };
  const client = await connect(patient);
  try {
    if (!(await isPooled(client))) {
      return null;
    }
    await requireTransactions(client);
    return {
      ...(await readLimits(client)),
      keepsPreparedStatements: await inspectStatements(client, patient),
    };
  } finally {
    await client.end();
  }
};

const CONNECT_TIMEOUT_MS = 5000;

/**
 * Returns what the pooler in front of a database can do, and whether its limits suffice for a pool with the default ones;
 * null if there is no pooler.
 * @throws PoolerError
 */
export const readPooler = async (
  url: string,
): Promise<(Pooler & { readonly limitsSuffice: boolean }) | null> => {
  const servers = readDatabaseServers(url);
  const pooler = await servers.open(({ config }) =>
    inspectPooler({
      ...config,
      connectionTimeoutMillis: connectTimeoutOf(servers, CONNECT_TIMEOUT_MS),
    }),
  );
  return pooler && { ...pooler, limitsSuffice: areWithin(pooler, DEFAULT_LIMITS) };
};
