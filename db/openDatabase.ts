import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import type { Config } from "../runtime/config/config.ts";
import { unusableDatabaseError } from "./connections/connect.ts";
import { requireCurrentSchema } from "./migrate.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { openPool } from "./pools/pool.ts";
import { countRow, sql } from "./sql.ts";

const requireDatabaseUrl = ({ DATABASE_URL }: Pick<Config, "DATABASE_URL">): string => {
  if (DATABASE_URL === undefined) {
    throw new StartupError(
      "DATABASE_URL is not set. Set it to a PostgreSQL database, or run everything on this machine with: npm start",
    );
  }
  return DATABASE_URL;
};

/**
 * Checks that the role has time limits, because a pooler ignores those that a pool asks for. The transaction fails if the
 * pooler runs each statement by itself.
 */
const requireUsablePooler = async (db: DatabasePool): Promise<void> => {
  const count = await db.transaction((transaction) =>
    transaction.oneFirst(sql.type(countRow)`
      SELECT count(*) AS count
      FROM pg_settings
      WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout') AND setting <> '0'
    `),
  );
  if (count < 2) {
    throw new Error(
      "behind a pooler, the role needs time limits: ALTER ROLE … SET statement_timeout = '60s' and SET idle_in_transaction_session_timeout = '60s', then RECONNECT in the pooler's console",
    );
  }
};

const cellRow = z.strictObject({ cell: z.string().nullable() });

/**
 * Names the cell of a database that has no accounts yet.
 * @throws StartupError if the database is another cell's: its keys, public paths and meters keep that cell's name
 */
const requireCell = async (db: CommonQueryMethods, cell: string): Promise<void> => {
  const recorded = await db.oneFirst(sql.type(cellRow)`SELECT cell FROM deployment`);
  const naming = sql.type(cellRow)`
    UPDATE deployment SET cell = ${cell} WHERE NOT EXISTS (SELECT FROM account) RETURNING cell
  `;
  if (recorded !== cell && (await db.maybeOne(naming)) === null) {
    const [owner, advice] =
      recorded === null
        ? ["the default cell's", "Unset CELL"]
        : [`that of the cell ${recorded}`, `Set CELL=${recorded}`];
    throw new StartupError(
      `CELL is ${cell}, but the database is ${owner} and has accounts. ${advice}, or use another database.`,
    );
  }
};

/**
 * Opens the main pool.
 * @throws StartupError if DATABASE_URL is not set, or the database cannot be reached or is of another cell
 * @throws SchemaError if the schema is of another release
 */
export const openDatabase = async (
  config: Pick<Config, "DATABASE_URL" | "DATABASE_POOL_SIZE" | "CELL">,
): Promise<DatabasePool> => {
  const databaseUrl = requireDatabaseUrl(config);
  try {
    const { isPooled } = await requireCurrentSchema(databaseUrl);
    const db = await openPool(databaseUrl, config.DATABASE_POOL_SIZE);
    if (isPooled) {
      await requireUsablePooler(db);
    }
    if (config.CELL !== undefined) {
      await requireCell(db, config.CELL);
    }
    return db;
  } catch (error) {
    throw error instanceof StartupError
      ? error
      : unusableDatabaseError(databaseUrl, "DATABASE_URL", error);
  }
};

/** After it the client receives a 503 that says what to narrow, and a search of charities fails. */
const READ_TIMEOUT_MS = 5000;
/** They keep one or two cores busy. */
const CONCURRENT_READS = 3;
/** A health check waits no longer. */
const HEALTH_TIMEOUT_MS = 2000;

/**
 * Opens a separate pool for queries of clients that may read many records, so that nothing else waits for them. A query
 * that uses another pool must read counters, rows by their ids, or a bounded part of an index.
 */
export const openReads = (
  config: Pick<Config, "DATABASE_URL">,
  timeoutMs = READ_TIMEOUT_MS,
): Promise<DatabasePool> =>
  openPool(requireDatabaseUrl(config), CONCURRENT_READS, timeoutMs, { isForReads: true });

/** Opens one connection for the health checks, so that a busy pool does not look like an unreachable database. */
export const openHealthConnection = (config: Pick<Config, "DATABASE_URL">): Promise<DatabasePool> =>
  openPool(requireDatabaseUrl(config), 1, HEALTH_TIMEOUT_MS);
