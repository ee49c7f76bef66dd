import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { Client, escapeIdentifier, escapeLiteral } from "pg";
import { readDatabaseServers } from "./connections/databaseServers.ts";

/** A role lacks a privilege, or does not exist; the message says what to do. */
export class DatabaseRoleError extends Error {
  override readonly name = "DatabaseRoleError";
}

type Role = { readonly name: string; readonly password: string | null };

/** Returns the user with whom the driver connects, which the URL need not name. */
const roleOf = (url: string): Role => {
  const [server] = readDatabaseServers(url).list;
  const { user, password } = new Client(server?.config);
  return { name: user ?? "", password: password ?? null };
};

/** PostgreSQL's own number. */
const SCRAM_ITERATIONS = 4096;

/** Returns what PostgreSQL stores of a password (RFC 5803), so that the server's log never has the password itself. */
const scramVerifierOf = (password: string): string => {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password.normalize("NFKC"), salt, SCRAM_ITERATIONS, 32, "sha256");
  const sign = (text: string): Buffer => createHmac("sha256", salted).update(text).digest();
  const storedKey = createHash("sha256").update(sign("Client Key")).digest("base64");
  const serverKey = sign("Server Key").toString("base64");
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
};

type Session = {
  readonly owner: string;
  readonly database: string;
  readonly schema: string;
  readonly mayCreateRoles: boolean;
};

const readSession = async (client: Client): Promise<Session> => {
  const { rows } = await client.query<Session>(`
    SELECT
      current_user AS owner,
      current_database() AS database,
      current_schema() AS schema,
      rolsuper OR rolcreaterole AS "mayCreateRoles"
    FROM pg_roles
    WHERE rolname = current_user
  `);
  const [session] = rows;
  if (session === undefined) {
    throw new TypeError("The database reported no role.");
  }
  return session;
};

/** @throws DatabaseRoleError if the role is missing and cannot be created */
const ensureRole = async (
  client: Client,
  { owner, mayCreateRoles }: Session,
  { name, password }: Role,
): Promise<void> => {
  const { rowCount } = await client.query("SELECT FROM pg_roles WHERE rolname = $1", [name]);
  if (rowCount !== 0) {
    return;
  }
  const create = `CREATE ROLE ${escapeIdentifier(name)} LOGIN`;
  if (!mayCreateRoles) {
    throw new DatabaseRoleError(
      `The role ${name} does not exist, and ${owner} may not create it. Create it as an administrator: ${create} PASSWORD '…'`,
    );
  }
  await client.query(
    password === null ? create : `${create} PASSWORD ${escapeLiteral(scramVerifierOf(password))}`,
  );
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
 * Gives the programs' role exactly the privileges that it needs, and creates it if it is missing. The owner's own role keeps
 * what it has, so one role for everything works.
 * @param appUrl its user is the role
 * @throws DatabaseRoleError if the role is missing and the owner may not create it
 */
export const grantPrivileges = async (client: Client, appUrl: string): Promise<void> => {
  const session = await readSession(client);
  const role = roleOf(appUrl);
  if (role.name === session.owner) {
    return;
  }
  await ensureRole(client, session, role);
  const tables = await listTables(client);
  // One query without parameters is one transaction, so no session sees a table between REVOKE and GRANT.
  await client.query(statementsFor(session, role.name, tables).join(";\n"));
};
