import { Client, escapeIdentifier } from "pg";
import { readDatabaseUrl } from "../runtime/config/databaseUrl.ts";

/** A role lacks a privilege, or does not exist; the message says what to do. */
export class DatabaseRoleError extends Error {
  override readonly name = "DatabaseRoleError";
}

type Session = {
  readonly owner: string;
  readonly database: string;
  readonly schema: string;
};

const readSession = async (client: Client): Promise<Session> => {
  const { rows } = await client.query<Session>(`
    SELECT current_user AS owner, current_database() AS database, current_schema() AS schema
  `);
  const [session] = rows;
  if (session === undefined) {
    throw new TypeError("The database reported no role.");
  }
  return session;
};

type Table = { readonly name: string; readonly isAppendOnly: boolean };

/** A trigger `<table>_append_only` marks a table that is only ever added to. */
const listTables = async (client: Client): Promise<readonly Table[]> => {
  const { rows } = await client.query<Table>(`
    SELECT
      relname AS name,
      EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND tgname = relname || '_append_only') AS "isAppendOnly"
    FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    ORDER BY relname
  `);
  return rows;
};

/** What the programs only read: migrations write it. */
const READ_ONLY = new Set(["schema_migration"]);

const privilegesOf = ({ name, isAppendOnly }: Table): string => {
  if (READ_ONLY.has(name)) {
    return "SELECT";
  }
  return isAppendOnly ? "SELECT, INSERT" : "SELECT, INSERT, UPDATE, DELETE";
};

const statementsFor = (
  session: Session,
  name: string,
  tables: readonly Table[],
): readonly string[] => {
  const role = escapeIdentifier(name);
  const schema = escapeIdentifier(session.schema);
  return [
    // In databases that were created before PostgreSQL 15, every role may create tables.
    `REVOKE CREATE ON SCHEMA ${schema} FROM PUBLIC`,
    `GRANT CONNECT ON DATABASE ${escapeIdentifier(session.database)} TO ${role}`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    ...tables.flatMap((table) => {
      const qualified = `${schema}.${escapeIdentifier(table.name)}`;
      return [
        `REVOKE ALL ON ${qualified} FROM ${role}`,
        `GRANT ${privilegesOf(table)} ON ${qualified} TO ${role}`,
      ];
    }),
    `GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`,
    // For the moment between a later migration and its grants, while the previous release is still running.
    `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT SELECT, INSERT, UPDATE ON TABLES TO ${role}`,
    `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT USAGE ON SEQUENCES TO ${role}`,
  ];
};

/**
 * Gives the programs' role exactly the privileges that it needs. The owner's own role keeps what it has, so one role for
 * everything works.
 * @param appUrl its user is the role
 * @throws DatabaseRoleError if the role is missing
 */
export const grantPrivileges = async (client: Client, appUrl: string): Promise<void> => {
  const session = await readSession(client);
  // The driver knows a default for a URL that names no user.
  const { user: name = "" } = new Client(readDatabaseUrl(appUrl).servers[0]?.config);
  if (name === session.owner) {
    return;
  }
  const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = $1", [name]);
  if (rowCount === 0) {
    throw new DatabaseRoleError(
      `The role ${name} does not exist. Create it as an administrator: CREATE ROLE ${escapeIdentifier(name)} LOGIN PASSWORD '…'`,
    );
  }
  const tables = await listTables(client);
  // One query without parameters is one transaction, so no session sees a table between REVOKE and GRANT.
  await client.query(statementsFor(session, name, tables).join(";\n"));
};
