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

const limitsRow = z.strictObject({ count: z.int() });

/**
 * Checks that the role has time limits, because a pooler ignores those that a pool asks for. The transaction fails if the
 * pooler runs each statement by itself.
 * @throws PoolerError
 */
export const requireUsablePooler = async (db: DatabasePool): Promise<void> => {
  const count = await db.transaction((transaction) =>
    transaction.oneFirst(sql.type(limitsRow)`
      SELECT count(*)::integer AS count
      FROM pg_settings
      WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout') AND setting <> '0'
    `),
  );
  if (count < 2) {
    throw new PoolerError(
      "behind a pooler, the role needs time limits: ALTER ROLE … SET statement_timeout = '60s' and SET idle_in_transaction_session_timeout = '60s', then RECONNECT in the pooler's console",
    );
  }
};
