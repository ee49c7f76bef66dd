import type { DatabasePool } from "slonik";
import type { Config } from "../config/config.ts";
import { openCopyPool } from "../db/copyPool.ts";
import type { CopyPool } from "../db/copyPool.ts";
import { requireCurrentSchema, SchemaMismatchError } from "../db/migrate.ts";
import { openPool } from "../db/pool.ts";
import { StartupError } from "./startupError.ts";

/** Where the database is, without its password. */
const nameDatabase = (databaseUrl: string): string => {
  const { host, pathname } = new URL(databaseUrl);
  return `${host}${pathname}`;
};

const requireDatabaseUrl = ({ DATABASE_URL }: Pick<Config, "DATABASE_URL">): string => {
  if (DATABASE_URL === undefined) {
    throw new StartupError(
      "DATABASE_URL is not set. Set it to a PostgreSQL database, or run everything on this machine with: npm start",
    );
  }
  return DATABASE_URL;
};

/**
 * Opens the database of a program that cannot do without it.
 * @throws StartupError when it is not set or cannot be reached
 * @throws SchemaMismatchError when it is at another release's schema
 */
export const openDatabase = async (
  config: Pick<Config, "DATABASE_URL" | "DATABASE_POOL_SIZE">,
): Promise<DatabasePool> => {
  const databaseUrl = requireDatabaseUrl(config);
  try {
    await requireCurrentSchema(databaseUrl);
  } catch (error) {
    if (error instanceof SchemaMismatchError || !(error instanceof Error)) {
      throw error;
    }
    // Of several addresses that refuse, node tells in an error without a message.
    const reason = error.message === "" && "code" in error ? String(error.code) : error.message;
    throw new StartupError(
      `The database at ${nameDatabase(databaseUrl)} cannot be used: ${reason}. Check DATABASE_URL.`,
      { cause: error },
    );
  }
  return openPool(databaseUrl, config.DATABASE_POOL_SIZE);
};

/** A search takes tens of milliseconds, one for a common word up to a second; three keep a core or two busy. */
const SEARCHES_AT_ONCE = 3;
/** Nobody waits for a search any longer. */
const SEARCH_TIMEOUT_MS = 5000;

/**
 * Opens the database for searches of the catalogue, which must not take connections from registrations.
 * @throws StartupError when it is not set
 */
export const openSearches = (config: Pick<Config, "DATABASE_URL">): Promise<DatabasePool> =>
  openPool(requireDatabaseUrl(config), SEARCHES_AT_ONCE, SEARCH_TIMEOUT_MS);

/**
 * Opens the database for long answers; whether it can be reached shows when there is one.
 * @throws StartupError when it is not set
 */
export const openCopies = (config: Pick<Config, "DATABASE_URL">): CopyPool =>
  openCopyPool(requireDatabaseUrl(config));
