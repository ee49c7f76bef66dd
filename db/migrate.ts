import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "pg";
import { codeOf, SchemaError } from "../runtime/errors.rules.ts";
import { createConnect, unusableDatabaseError } from "./connections/connect.ts";
import type { Connection, DatabaseSetting } from "./connections/connect.ts";
import { isConnectionLost } from "./databaseErrors.ts";
import { grantPrivileges } from "./grantPrivileges.ts";
import { readMigrations } from "./readMigrations.ts";
import type { Migration } from "./readMigrations.ts";

/** How a migration waits for locks that other sessions hold: two minutes, which cover most transactions. */
const LOCK_WAITS = {
  /** How long a statement waits. Every session that needs the table waits behind it. */
  lockTimeoutMs: 1000,
  /** How long the others may work before the next attempt. */
  pauseMs: 3000,
  maximumAttempts: 30,
  migratorTimeoutMs: 10 * 60_000,
  onWait: (_message: string): void => undefined,
};
type LockWaits = Readonly<typeof LOCK_WAITS>;

export type Migrator = {
  readonly kind: "operator";
  readonly name: string;
  readonly reason: string | null;
} | null;

/** @throws StartupError if the database of a setting cannot be reached, or the connection is lost */
const withConnection = async <Result>(
  databaseUrl: string,
  setting: DatabaseSetting,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> => {
  const connection = await createConnect(databaseUrl)({
    // As long as the pools wait: programs start, and commands run, while the machine is busy.
    connectionTimeoutMillis: 15_000,
    // A migration, or the wait for another migrator, may take long; without this a lost connection is not detected.
    keepAlive: true,
    keepAliveInitialDelayMillis: 30_000,
  }).catch((error: unknown) => {
    throw unusableDatabaseError(databaseUrl, setting, error);
  });
  try {
    return await work(connection);
  } catch (error) {
    throw isConnectionLost(error) ? unusableDatabaseError(databaseUrl, setting, error) : error;
  } finally {
    await connection.client.end();
  }
};

/**
 * Returns the migrations that the database lacks. Those of a newer release are accepted if they say that releases like this
 * one still run with them. Migrations are edited only before their release.
 * @throws SchemaError
 */
const listMissing = async (client: Client, migrations: readonly Migration[]) => {
  const { rows } = await client.query<Pick<Migration, "number" | "runsWith" | "checksum">>(
    'SELECT number, runs_with AS "runsWith", checksum FROM schema_migration ORDER BY number',
  );
  const newest = Math.max(...migrations.map(({ number }) => number));
  const known = new Map(migrations.map((migration) => [migration.number, migration]));
  const refused = rows.filter(({ number, runsWith }) => !known.has(number) && runsWith > newest);
  if (refused.length > 0) {
    throw new SchemaError(
      `The database was migrated by a newer release (migration ${refused.map(({ number }) => number).join(", ")}). Run that release.`,
    );
  }
  const differing = rows.flatMap(({ number, checksum }) => {
    const migration = known.get(number);
    return migration && migration.checksum !== checksum ? [migration.name] : [];
  });
  if (differing.length > 0) {
    throw new SchemaError(
      `The database was migrated by another version, whose migration ${differing.join(", ")} differs from this one's. Run that version, or start with an empty database.`,
    );
  }
  const applied = new Set(rows.map(({ number }) => number));
  return migrations.filter(({ number }) => !applied.has(number));
};

/** Runs a migration in a transaction, which also records that it was applied, and by whom. The first creates the audit log. */
const runTransaction = async (
  client: Client,
  { number, name, text, runsWith, checksum }: Migration,
  migrator: Migrator,
  lockTimeoutMs: number,
): Promise<void> => {
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
    await client.query(text);
    await client.query(
      "INSERT INTO schema_migration (number, name, runs_with, checksum) VALUES ($1, $2, $3, $4)",
      [number, name, runsWith, checksum],
    );
    if (migrator) {
      await client.query(
        `
          INSERT INTO audit_entry (created_at, action, actor, operator, reason, details)
          VALUES (now(), 'migrate', $1, $2, $3, $4)
        `,
        [migrator.kind, migrator.name, migrator.reason, { applied: [name] }],
      );
    }
    await client.query("COMMIT");
  } catch (error) {
    // It fails only on a lost connection, whose transaction the server rolls back.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
};

/** Returns whether PostgreSQL has ended a statement because of a lock timeout or a deadlock. */
const isLockError = (error: unknown): boolean => ["55P03", "40P01"].includes(codeOf(error));

/**
 * Applies a migration. If it does not get a lock in time, it is rolled back and tried again later.
 * @throws SchemaError if no attempt gets its locks
 */
const applyMigration = async (
  client: Client,
  migration: Migration,
  migrator: Migrator,
  { lockTimeoutMs, pauseMs, maximumAttempts, onWait }: LockWaits,
): Promise<void> => {
  const { name } = migration;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await runTransaction(client, migration, migrator, lockTimeoutMs);
      return;
    } catch (error) {
      if (!isLockError(error)) {
        const reason = isConnectionLost(error)
          ? `the connection was lost during migration ${name}: ${error.message}`
          : `Migration ${name} failed and was rolled back.`;
        throw new Error(reason, { cause: error });
      }
      if (attempt === maximumAttempts) {
        throw new SchemaError(
          `Migration ${name} was rolled back, because other sessions hold a lock that it needs. ` +
            "Find them with: SELECT pid, usename, state, xact_start, query FROM pg_stat_activity WHERE xact_start < now() - interval '1 minute' ORDER BY xact_start; end them or wait, then run the migration again",
          { cause: error },
        );
      }
      onWait(
        `Migration ${name} waits for a lock that other sessions hold (attempt ${attempt} of ${maximumAttempts}).`,
      );
      await delay(pauseMs);
    }
  }
};

/** @throws SchemaError if the role may not create tables, or the session is a pooler's */
const requireOwner = async ({ client, isPooled }: Connection): Promise<void> => {
  const { rows } = await client.query<{ role: string; mayCreate: boolean | null }>(`
    SELECT current_user AS role, has_schema_privilege(current_schema(), 'CREATE') AS "mayCreate"
  `);
  if (rows[0]?.mayCreate !== true) {
    throw new SchemaError(
      `The role ${rows[0]?.role} may not change the schema. Set DATABASE_OWNER_URL to a URL with the role that owns it.`,
    );
  }
  if (isPooled) {
    throw new SchemaError(
      "Migrations need a session of PostgreSQL, not of a pooler. Set DATABASE_OWNER_URL to the server's own address.",
    );
  }
};

/**
 * Waits until no other migrator works. Any role may take the lock, which ends with the connection.
 * @throws SchemaError
 */
const becomeOnlyMigrator = async (client: Client, timeoutMs: number): Promise<void> => {
  try {
    await client.query(`SET lock_timeout = ${timeoutMs}`);
    await client.query("SELECT pg_advisory_lock(hashtext('schema_migration'))");
  } catch (error) {
    if (!isLockError(error)) {
      throw error;
    }
    throw new SchemaError(
      "Another session has been migrating the database for too long, or only holds the lock of migrations. " +
        "Find it with: SELECT pid, usename, query FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted AND datname = current_database(); wait until it has finished or end it, then run the migration again",
      { cause: error },
    );
  }
};

/**
 * Applies the migrations that the database lacks and returns their names. Concurrent calls wait for each other.
 * @param ownerUrl its role owns the tables
 * @param options.appUrl its role receives its privileges, even if no migration is applied
 * @param options.folder of the migrations, this release's own by default
 * @param options.migrator is recorded in the audit log with each migration, in its transaction
 * @throws StartupError if the database cannot be reached, or the connection is lost
 * @throws SchemaError when a newer release or another version has migrated the database, the role of `ownerUrl` may not change
 *   the schema or its URL is a pooler's, the other role is missing, or another session holds a lock for too long
 */
export const migrate = (
  ownerUrl: string,
  {
    appUrl = ownerUrl,
    folder,
    migrator = null,
    ...waits
  }: Partial<LockWaits> & {
    readonly appUrl?: string;
    readonly folder?: string;
    readonly migrator?: Migrator;
  } = {},
): Promise<{ readonly applied: readonly string[] }> => {
  const setting = ownerUrl === appUrl ? "DATABASE_URL" : "DATABASE_OWNER_URL";
  return withConnection(ownerUrl, setting, async (connection) => {
    const { client } = connection;
    const migrations = await readMigrations(folder);
    const lockWaits = { ...LOCK_WAITS, ...waits };
    await requireOwner(connection);
    await becomeOnlyMigrator(client, lockWaits.migratorTimeoutMs);
    await client.query(`
      CREATE TABLE IF NOT EXISTS schema_migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now(),
        -- The newest migration that a release must know to run with this one.
        runs_with integer NOT NULL CONSTRAINT schema_migration_runs_with CHECK (runs_with <= number),
        -- Of the statements.
        checksum text NOT NULL
      )
    `);
    const missing = await listMissing(client, migrations);
    for (const migration of missing) {
      await applyMigration(client, migration, migrator, lockWaits);
    }
    await grantPrivileges(client, appUrl);
    return { applied: missing.map(({ name }) => name) };
  });
};

/**
 * Checks that this release runs with the database's schema: it has all of its migrations as they are now, and further ones
 * only if they say so.
 * @returns whether the connection is one of a pooler's
 * @throws SchemaError whose message says what to do
 */
export const requireCurrentSchema = (
  databaseUrl: string,
  { folder }: { readonly folder?: string } = {},
): Promise<{ readonly isPooled: boolean }> =>
  withConnection(databaseUrl, "DATABASE_URL", async ({ client, isPooled }) => {
    const migrations = await readMigrations(folder);
    const { rows } = await client.query<{ exists: boolean }>(
      "SELECT to_regclass('schema_migration') IS NOT NULL AS exists",
    );
    const missing = rows[0]?.exists === true ? await listMissing(client, migrations) : migrations;
    if (missing.length > 0) {
      throw new SchemaError(
        `The database lacks ${missing.length} of this release's migrations. Run: npm run -s impact -- migrate`,
      );
    }
    return { isPooled };
  });
