import { SchemaMismatchError } from "../runtime/errors.rules.ts";
import type { Client } from "pg";
import { isPooled, PoolerError } from "./connections/pooler.ts";
import { connectClient } from "./connections/connectClient.ts";
import type { Connected } from "./connections/connectClient.ts";
import { DatabaseRoleError, grantPrivileges } from "./grantPrivileges.ts";
import { applyMigration, LOCK_WAITS, MigrationBlockedError } from "./applyMigration.ts";
import type { LockWaits, Migrator } from "./applyMigration.ts";
import { readMigrations } from "./readMigrations.ts";
import type { Migration } from "./readMigrations.ts";

type Applied = {
  readonly number: number;
  readonly runsWith: number;
  readonly checksum: string;
};

const readApplied = async (client: Client): Promise<readonly Applied[]> => {
  const { rows } = await client.query<Applied>(`
    SELECT number, runs_with AS "runsWith", checksum
    FROM schema_migration
    ORDER BY number
  `);
  return rows;
};

/** Migrations of a newer release are accepted if they say that releases like this one still run with them. */
const refuseNewerSchema = (applied: readonly Applied[], migrations: readonly Migration[]): void => {
  const known = new Set(migrations.map(({ number }) => number));
  const newest = Math.max(...known);
  const refused = applied.filter(({ number, runsWith }) => !known.has(number) && runsWith > newest);
  if (refused.length > 0) {
    throw new SchemaMismatchError(
      `The database was migrated by a newer release (migration ${refused.map(({ number }) => number).join(", ")}). Run that release.`,
    );
  }
};

/** Migrations are edited only before their release, so a database with other ones is of a development version. */
const refuseOtherMigrations = (
  applied: readonly Applied[],
  migrations: readonly Migration[],
): void => {
  const checksums = new Map(applied.map(({ number, checksum }) => [number, checksum]));
  const differing = migrations.filter(
    ({ number, checksum }) => checksums.has(number) && checksums.get(number) !== checksum,
  );
  if (differing.length > 0) {
    throw new SchemaMismatchError(
      `The database was migrated by another version, whose migration ${differing.map(({ name }) => name).join(", ")} differs from this one's. Run that version, or start with an empty database.`,
    );
  }
};

const requireCompatible = (applied: readonly Applied[], migrations: readonly Migration[]): void => {
  refuseNewerSchema(applied, migrations);
  refuseOtherMigrations(applied, migrations);
};

const findMissing = (
  applied: readonly Applied[],
  migrations: readonly Migration[],
): readonly Migration[] => {
  const numbers = new Set(applied.map(({ number }) => number));
  return migrations.filter(({ number }) => !numbers.has(number));
};

const withClient = async <Result>(
  databaseUrl: string,
  work: (connection: Connected) => Promise<Result>,
): Promise<Result> => {
  const connection = await connectClient(databaseUrl, {
    // As long as the pools wait: programs start, and commands run, while the machine is busy.
    connectionTimeoutMillis: 15_000,
    // A migration, or the wait for another migrator, may take long; without this a lost connection is not detected.
    keepAlive: true,
    keepAliveInitialDelayMillis: 30_000,
  });
  try {
    return await work(connection);
  } finally {
    await connection.client.end();
  }
};

const requireOwner = async (client: Client): Promise<void> => {
  const { rows } = await client.query<{ role: string; mayCreate: boolean | null }>(`
    SELECT current_user AS role, has_schema_privilege(current_schema(), 'CREATE') AS "mayCreate"
  `);
  if (rows[0]?.mayCreate !== true) {
    throw new DatabaseRoleError(
      `The role ${rows[0]?.role} may not change the schema. Set DATABASE_OWNER_URL to a URL with the role that owns it.`,
    );
  }
};

const LOCK_POLL_MS = 500;
/** Names the session that holds the lock of migrators. Any role may take it. */
const describeHolder = async (client: Client): Promise<string> => {
  const { rows } = await client.query<{ holder: string }>(`
    SELECT format('process %s of the role %s (%s)', pid, usename, coalesce(nullif(application_name, ''), 'unnamed')) AS holder
    FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
      AND (classid::bigint << 32 | objid::bigint) = hashtext('schema_migration')::bigint
  `);
  return rows[0]?.holder ?? "another session";
};

/** Waits until no other migrator works; the lock ends with the connection. It polls, so that the wait can be given up. */
const becomeOnlyMigrator = async (
  { client, pause }: Pick<Connected, "client" | "pause">,
  { migratorTimeoutMs }: LockWaits,
): Promise<void> => {
  for (let waitedMs = 0; ; waitedMs += LOCK_POLL_MS) {
    const { rows } = await client.query<{ locked: boolean }>(
      "SELECT pg_try_advisory_lock(hashtext('schema_migration')) AS locked",
    );
    if (rows[0]?.locked === true) {
      return;
    }
    if (waitedMs >= migratorTimeoutMs) {
      throw new MigrationBlockedError(
        `The database is being migrated by ${await describeHolder(client)}. Wait until it has finished or end it with SELECT pg_terminate_backend(…), then run the migration again`,
      );
    }
    await pause(LOCK_POLL_MS);
  }
};

/**
 * Applies the migrations that the database lacks and returns their names. Concurrent calls wait for each other.
 * @param ownerUrl its role owns the tables
 * @param options.appUrl its role receives its privileges, even if no migration is applied
 * @param options.folder of the migrations, this release's own by default
 * @param options.migrator is recorded in the audit log with each migration, in its transaction
 * @param options.signal ends waiting for locks, and the work after the current migration
 * @throws SchemaMismatchError when a newer release or another version has migrated the database
 * @throws DatabaseRoleError if the role of `ownerUrl` may not change the schema, or the other role is missing
 * @throws PoolerError if `ownerUrl` is a pooler's
 * @throws MigrationBlockedError if another session holds a lock for too long
 */
export const migrate = (
  ownerUrl: string,
  {
    appUrl = null,
    folder,
    migrator = null,
    signal,
    ...waits
  }: Partial<LockWaits> & {
    readonly appUrl?: string | null;
    readonly folder?: string;
    readonly migrator?: Migrator;
    readonly signal?: AbortSignal;
  } = {},
): Promise<{ readonly applied: readonly string[] }> =>
  withClient(ownerUrl, async ({ client, pause }) => {
    const connection = {
      client,
      pause: async (timeoutMs: number) => {
        await pause(timeoutMs);
        signal?.throwIfAborted();
      },
    };
    const migrations = await readMigrations(folder);
    await requireOwner(client);
    if (await isPooled(client)) {
      throw new PoolerError(
        "Migrations need a session of PostgreSQL, not of a pooler. Set DATABASE_OWNER_URL to the server's own address.",
      );
    }
    const lockWaits = { ...LOCK_WAITS, ...waits };
    await becomeOnlyMigrator(connection, lockWaits);
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
    const applied = await readApplied(client);
    requireCompatible(applied, migrations);
    const missing = findMissing(applied, migrations);
    for (const migration of missing) {
      signal?.throwIfAborted();
      await applyMigration(connection, migration, migrator, lockWaits);
    }
    if (appUrl !== null) {
      await grantPrivileges(client, appUrl);
    }
    return { applied: missing.map(({ name }) => name) };
  });

/**
 * Checks that this release runs with the database's schema: it has all of its migrations as they are now, and further ones
 * only if they say so.
 * @throws SchemaMismatchError whose message says what to do
 */
export const requireCurrentSchema = (
  databaseUrl: string,
  { folder }: { readonly folder?: string } = {},
): Promise<void> =>
  withClient(databaseUrl, async ({ client }) => {
    const migrations = await readMigrations(folder);
    const { rows } = await client.query<{ exists: boolean }>(
      "SELECT to_regclass('schema_migration') IS NOT NULL AS exists",
    );
    const applied = rows[0]?.exists === true ? await readApplied(client) : [];
    requireCompatible(applied, migrations);
    const missing = findMissing(applied, migrations);
    if (missing.length > 0) {
      throw new SchemaMismatchError(
        `The database lacks ${missing.length} of this release's migrations. Run: npm run -s impact -- migrate`,
      );
    }
  });
