import { Client, escapeIdentifier } from "pg";
import { readDatabaseUrl } from "../runtime/config/databaseUrl.ts";
import { SchemaError } from "../runtime/errors.rules.ts";

/**
 * Reads what is known of a role, and the statements that grant its privileges. A trigger `<table>_append_only` marks a table
 * that is only ever added to.
 */
const READ_ROLE = `
  SELECT
    current_user = given.role AS "isOwner",
    EXISTS (SELECT FROM pg_roles WHERE rolname = given.role) AS exists,
    ARRAY[
      -- In databases that were created before PostgreSQL 15, every role may create tables.
      format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema()),
      format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), given.role),
      format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), given.role),
      format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO %I', current_schema(), given.role),
      -- For the moment between a later migration and its grants, while the previous release is still running.
      format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT, INSERT, UPDATE ON TABLES TO %I', current_schema(), given.role),
      format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT USAGE ON SEQUENCES TO %I', current_schema(), given.role)
    ] || ARRAY(
      SELECT format(
        'REVOKE ALL ON %1$s FROM %2$I; GRANT %3$s ON %1$s TO %2$I',
        pg_class.oid::regclass,
        given.role,
        CASE
          WHEN relname = 'schema_migration' THEN 'SELECT'
          WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND tgname = relname || '_append_only')
          THEN 'SELECT, INSERT'
          -- What clients recorded is kept for ever.
          WHEN relname IN ('registration', 'donation', 'idempotency_key') THEN 'SELECT, INSERT, UPDATE'
          ELSE 'SELECT, INSERT, UPDATE, DELETE'
        END
      )
      FROM pg_class
      WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    ) AS statements
  FROM (VALUES ($1::text)) AS given (role)
`;

/**
 * Gives the programs' role exactly the privileges that it needs. The owner's own role keeps what it has, so one role for
 * everything works.
 * @param appUrl its user is the role
 * @throws SchemaError if the role is missing
 */
export const grantPrivileges = async (client: Client, appUrl: string): Promise<void> => {
  // The driver knows a default for a URL that names no user.
  const { user: name = "" } = new Client(readDatabaseUrl(appUrl).servers[0]?.config);
  const { rows } = await client.query<{ isOwner: boolean; exists: boolean; statements: string[] }>(
    READ_ROLE,
    [name],
  );
  const { isOwner = false, exists = false, statements = [] } = rows[0] ?? {};
  if (isOwner) {
    return;
  }
  if (!exists) {
    throw new SchemaError(
      `The role ${name} does not exist. Create it as an administrator: CREATE ROLE ${escapeIdentifier(name)} LOGIN PASSWORD '…'`,
    );
  }
  // One query without parameters is one transaction, so no session sees a table between REVOKE and GRANT.
  await client.query(statements.join(";\n"));
};
