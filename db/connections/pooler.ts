import { randomUUID } from "node:crypto";
import type { Client } from "pg";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

/*
 * A connection pooler between this program and PostgreSQL, such as PgBouncer in transaction mode: each transaction, and each
 * single statement, may run on another connection of the server. It must be configured as docs/operations.md says.
 */

/** The pooler cannot be used as it is configured; the message says what to change. */
export class PoolerError extends Error {
  override readonly name = "PoolerError";
}

/**
 * Returns whether the session's connection is one of a pooler's. A server reports its own process when it is connected
 * to; a pooler reports a number that it has made up.
 */
export const isPooled = async (client: Client): Promise<boolean> => {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  // The library's types lack the number.
  return !("processID" in client && client.processID === rows[0]?.pid);
};

const numberRow = z.strictObject({ number: z.int() });

/** The pooler ignores the limits that a pool asks for, so the role needs some. */
const requireLimits = async (db: DatabasePool): Promise<void> => {
  const limited = await db.oneFirst(sql.type(numberRow)`
    SELECT count(*)::integer AS number
    FROM pg_settings
    WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout') AND setting <> '0'
  `);
  if (limited < 2) {
    throw new PoolerError(
      "behind a pooler, the role needs time limits: ALTER ROLE … SET statement_timeout = '60s' and SET idle_in_transaction_session_timeout = '60s', then RECONNECT in the pooler's console",
    );
  }
};

/** Prepares two statements of one name over two connections, which a pooler that keeps statements tells apart. */
const requirePreparedStatements = async (db: DatabasePool): Promise<void> => {
  const name = `probe_${randomUUID()}`;
  await db.connect(async (one) => {
    await one.one(sql.prepared(name, numberRow)`SELECT 1 AS number`);
    await db.connect((other) => other.one(sql.prepared(name, numberRow)`SELECT 2 AS number`));
    await one.transaction((transaction) =>
      transaction.one(sql.prepared(name, numberRow)`SELECT 1 AS number`),
    );
  });
};

/** @throws PoolerError if the pooler before the database cannot be used */
export const requireUsablePooler = async (db: DatabasePool): Promise<void> => {
  await requireLimits(db);
  try {
    await requirePreparedStatements(db);
  } catch (error) {
    throw new PoolerError(
      "the pooler does not keep prepared statements and transactions together: set pool_mode = transaction and max_prepared_statements = 200 in pgbouncer.ini, which PgBouncer from 1.21 has, or pool_mode = session",
      { cause: error },
    );
  }
};
