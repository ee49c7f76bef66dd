import { readdir, readFile } from "node:fs/promises";
import type { Client } from "pg";
import { connectClient } from "./connections/connectClient.ts";
import { DatabaseRoleError, grantPrivileges } from "./grantPrivileges.ts";
import type { DatabaseRoles } from "./grantPrivileges.ts";

const FOLDER = new URL("migrations/", import.meta.url);

type Migration = { readonly number: number; readonly name: string; readonly text: string };

const readMigrations = async (): Promise<readonly Migration[]> => {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(".sql")).toSorted();
  return Promise.all(
    names.map(async (name) => ({
      number: Number.parseInt(name, 10),
      name: name.replace(/\.sql$/u, ""),
      text: await readFile(new URL(name, FOLDER), "utf8"),
    })),
  );
};

const appliedNumbers = async (client: Client): Promise<ReadonlySet<number>> => {
  const { rows } = await client.query<{ number: number }>("SELECT number FROM schema_migration");
  return new Set(rows.map((row) => row.number));
};

const apply = async (client: Client, { number, name, text }: Migration): Promise<void> => {
  await client.query("BEGIN");
  try {
    await client.query("INSERT INTO schema_migration (number, name) VALUES ($1, $2)", [
      number,
      name,
    ]);
    await client.query(text);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw new Error(`Migration ${name} failed and was rolled back.`, { cause: error });
  }
};

/** The database has migrations that this release does not know, or lacks some that it needs. */
export class SchemaMismatchError extends Error {
  override readonly name = "SchemaMismatchError";
}

const refuseNewerSchema = (
  applied: ReadonlySet<number>,
  migrations: readonly Migration[],
): void => {
  const known = new Set(migrations.map(({ number }) => number));
  const unknown = [...applied].filter((number) => !known.has(number));
  if (unknown.length > 0) {
    throw new SchemaMismatchError(
      `The database was migrated by a newer release (migration ${unknown.join(", ")}). Run that release.`,
    );
  }
};

const withClient = async <Result>(
  databaseUrl: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> => {
  const { client } = await connectClient(databaseUrl, {
    connectionTimeoutMillis: 5000,
    // A migration, or the wait for another migrator, may take long; without this a lost connection is not detected.
    keepAlive: true,
    keepAliveInitialDelayMillis: 30_000,
  });
  try {
    return await work(client);
  } finally {
    await client.end();
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

/**
 * Applies the migrations that the database lacks and returns their names. Concurrent calls wait for each other.
 * @param ownerUrl its role owns the tables
 * @param roles receive their privileges, also if nothing is to be applied
 * @throws SchemaMismatchError when a newer release has migrated the database
 * @throws DatabaseRoleError if the role of `ownerUrl` may not change the schema, or another role is missing
 */
export const migrate = (
  ownerUrl: string,
  roles: DatabaseRoles = { appUrl: null, readerUrl: null },
): Promise<{ readonly applied: readonly string[] }> =>
  withClient(ownerUrl, async (client) => {
    const migrations = await readMigrations();
    await requireOwner(client);
    // One migrator at a time; the lock ends with the connection.
    await client.query("SELECT pg_advisory_lock(hashtext('schema_migration'))");
    await client.query(`
      CREATE TABLE IF NOT EXISTS schema_migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
      )
    `);
    const applied = await appliedNumbers(client);
    refuseNewerSchema(applied, migrations);
    const missing = migrations.filter(({ number }) => !applied.has(number));
    for (const migration of missing) {
      await apply(client, migration);
    }
    await grantPrivileges(client, roles);
    return { applied: missing.map(({ name }) => name) };
  });

/**
 * Checks that the database has exactly this release's schema, so that a program does not start on another one.
 * @throws SchemaMismatchError whose message says what to do
 */
export const requireCurrentSchema = (databaseUrl: string): Promise<void> =>
  withClient(databaseUrl, async (client) => {
    const migrations = await readMigrations();
    const { rows } = await client.query<{ exists: boolean }>(
      "SELECT to_regclass('schema_migration') IS NOT NULL AS exists",
    );
    const applied = rows[0]?.exists === true ? await appliedNumbers(client) : new Set<number>();
    refuseNewerSchema(applied, migrations);
    const missing = migrations.filter(({ number }) => !applied.has(number));
    if (missing.length > 0) {
      throw new SchemaMismatchError(
        `The database lacks ${missing.length} of this release's migrations. Run: npm run -s impact -- migrate`,
      );
    }
  });
