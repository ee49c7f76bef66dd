import type { Client } from "pg";
import { DatabaseRoleError } from "./grantPrivileges.ts";
import type { Migration } from "./readMigrations.ts";

const CREATE_EXTENSION = /^CREATE EXTENSION IF NOT EXISTS (?<name>\w+);/gmu;

type Extension = {
  readonly name: string;
  readonly isAvailable: boolean;
  readonly mayCreate: boolean;
  readonly role: string;
};

/**
 * Checks that the extensions of the migrations exist or can be created, before anything is changed.
 * @throws DatabaseRoleError with the SQL for an administrator
 */
export const requireExtensions = async (
  client: Client,
  migrations: readonly Migration[],
): Promise<void> => {
  const names = migrations.flatMap(({ text }) =>
    Array.from(text.matchAll(CREATE_EXTENSION), ({ groups }) => groups?.["name"] ?? ""),
  );
  const { rows } = await client.query<Extension>(
    `
      SELECT
        name,
        EXISTS (SELECT FROM pg_available_extensions available WHERE available.name = wanted.name) AS "isAvailable",
        rolsuper OR (
          has_database_privilege(current_database(), 'CREATE')
          AND EXISTS (
            SELECT FROM pg_available_extension_versions version WHERE version.name = wanted.name AND trusted
          )
        ) AS "mayCreate",
        current_user AS role
      FROM unnest($1::text[]) AS wanted (name), pg_roles
      WHERE rolname = current_user AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = wanted.name)
    `,
    [names],
  );
  const absent = rows.filter(({ isAvailable }) => !isAvailable);
  if (absent.length > 0) {
    throw new DatabaseRoleError(
      `The database server lacks the extensions ${absent.map(({ name }) => name).join(", ")}. Install PostgreSQL's contrib package there.`,
    );
  }
  const forbidden = rows.filter(({ mayCreate }) => !mayCreate);
  if (forbidden.length > 0) {
    const statements = forbidden.map(({ name }) => `CREATE EXTENSION ${name};`).join(" ");
    throw new DatabaseRoleError(
      `The role ${forbidden[0]?.role} may not create extensions. Run in this database as an administrator: ${statements}`,
    );
  }
};
