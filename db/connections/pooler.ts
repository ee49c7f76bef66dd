import { hash } from "node:crypto";
import { Client } from "pg";
import type { ClientBase, ClientConfig } from "pg";
import type { DriverClient } from "slonik";

/*
 * A connection pooler between this program and PostgreSQL, such as PgBouncer in transaction mode: each transaction, and each
 * single statement, may run on another connection of the server.
 */

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
const areWithin = (settings: SessionLimits, limits: SessionLimits): boolean =>
  isWithin(settings.statementTimeoutMs, limits.statementTimeoutMs) &&
  isWithin(settings.idleInTransactionTimeoutMs, limits.idleInTransactionTimeoutMs);

/** The pooler cannot be used as it is configured; the message says what to change. */
export class PoolerError extends Error {
  override readonly name = "PoolerError";
}

/** The server may be busy, but one that does not respond must not delay the connection to another. */
const RESPONSE_TIMEOUT_MS = 10_000;

const explainRefusal = (error: unknown): unknown => {
  const { name } =
    (error instanceof Error &&
      /unsupported startup parameter[^:]*: (?<name>[\w.]+)/u.exec(error.message)?.groups) ||
    {};
  return name === undefined
    ? error
    : new PoolerError(
        `the pooler refuses the start-up parameter ${name}: remove it from the URL, or add it to ignore_startup_parameters in pgbouncer.ini`,
        { cause: error },
      );
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

const readLimits = async (client: Client): Promise<SessionLimits> => {
  const { rows } = await client.query<SessionLimits>(`
    SELECT
      (SELECT setting::integer FROM pg_settings WHERE name = 'statement_timeout') AS "statementTimeoutMs",
      (SELECT setting::integer FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout')
        AS "idleInTransactionTimeoutMs"
  `);
  return rows[0] ?? { statementTimeoutMs: 0, idleInTransactionTimeoutMs: 0 };
};

/**
 * Returns the limits of every session behind a pooler, as role or database settings, or null if there is no pooler.
 * @param config without start-up parameters, which a pooler may refuse
 * @throws PoolerError
 */
export const inspectPooler = async (config: ClientConfig): Promise<SessionLimits | null> => {
  const client = new Client({ ...config, query_timeout: RESPONSE_TIMEOUT_MS });
  // A pooler may close the connection after an error; the query reports it.
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    throw explainRefusal(error);
  }
  try {
    if (!(await isPooled(client))) {
      return null;
    }
    await requireTransactions(client);
    return await readLimits(client);
  } finally {
    await client.end();
  }
};

const BEGINS: ReadonlySet<string> = new Set(["BEGIN", "START TRANSACTION"]);
const ENDS: ReadonlySet<string> = new Set(["COMMIT", "ROLLBACK"]);

/** PostgreSQL's codes for a named statement that does not exist, or that another session has prepared on the connection. */
const NOT_KEPT: ReadonlySet<unknown> = new Set(["26000", "42P05"]);
/** Its code, among others, for a statement whose result has another type than when it was prepared. */
const NOT_SUPPORTED = "0A000";

/** A statement that failed because of its name, so nothing was done. It is not given the name again. */
class LostStatementError extends Error {
  override readonly name = "LostStatementError";
  /** Of class 40, transaction rollback: slonik repeats the transaction, or the single statement. */
  readonly code = "40000";
}

/** Runs each transaction with its own time limits. A single statement becomes a transaction. */
const withLimits = (
  client: DriverClient,
  query: DriverClient["query"],
  limits: SessionLimits,
): DriverClient["query"] => {
  const begin: DriverClient["query"] = async (text) => {
    const result = await client.query(text);
    await client.query(
      "SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)",
      [String(limits.statementTimeoutMs), String(limits.idleInTransactionTimeoutMs)],
    );
    return result;
  };
  let isInTransaction = false;
  return async (text, values, options) => {
    const command = text.trim();
    if (BEGINS.has(command)) {
      isInTransaction = true;
      return begin(command);
    }
    if (ENDS.has(command)) {
      isInTransaction = false;
      return query(text, values, options);
    }
    if (isInTransaction) {
      return query(text, values, options);
    }
    await begin("BEGIN");
    try {
      const result = await query(text, values, options);
      await client.query("COMMIT");
      return result;
    } catch (error) {
      // The first error says why. A connection that cannot roll back is not used again, whatever its error was.
      await client.query("ROLLBACK").catch(() => client.destroy().catch(() => undefined));
      throw error;
    }
  };
};

/**
 * Returns a wrapper of a pool's clients, so that they store nothing in their sessions. Unless the role or the database has
 * limits that suffice, each transaction sets its own.
 *
 * Named statements are used until one is lost, because the pooler does not keep them. Their names are made of their texts, so
 * that none can be taken for another program's. A statement that a migration invalidated stays on the pooler's connections,
 * whatever its clients do, so that one is executed without its name from then on.
 */
export const behindPooler = (
  settings: SessionLimits,
  limits: SessionLimits,
): ((client: DriverClient) => DriverClient) => {
  let keepsNames = true;
  const invalid = new Set<string>();
  const withNames =
    (client: DriverClient): DriverClient["query"] =>
    async (text, values, options) => {
      if (options?.name === undefined || !keepsNames || invalid.has(text)) {
        return client.query(text, values);
      }
      try {
        return await client.query(text, values, { name: hash("sha256", text, "base64url") });
      } catch (error) {
        const code = error instanceof Error && "code" in error ? error.code : undefined;
        if (NOT_KEPT.has(code)) {
          keepsNames = false;
        } else if (code === NOT_SUPPORTED) {
          invalid.add(text);
        } else {
          throw error;
        }
        throw new LostStatementError("The pooler has lost a named statement.", { cause: error });
      }
    };
  return (client) => {
    const query = withNames(client);
    return {
      ...client,
      query: areWithin(settings, limits) ? query : withLimits(client, query, limits),
    };
  };
};
