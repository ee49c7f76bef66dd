import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { Client, escapeIdentifier, escapeLiteral } from "pg";
import { readDatabaseServers } from "./connections/databaseServers.ts";

/** The roles that use the database without owning its tables. Each is the user of a URL; null if there is none. */
export type DatabaseRoles = {
  /** The role of the programs. It may read and write data. */
  readonly appUrl: string | null;
  /** The role of people and reports. It may read data. */
  readonly readerUrl: string | null;
};

/** A role lacks a privilege, or does not exist; the message says what to do. */
export class DatabaseRoleError extends Error {
  override readonly name = "DatabaseRoleError";
}

type Role = { readonly name: string; readonly password: string | null };

/** Returns the user with whom the driver connects, which the URL need not name. */
const roleOf = (url: string): Role => {
  const [server] = readDatabaseServers(url).list();
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

type Table = {
  readonly name: string;
  readonly isAppendOnly: boolean;
  readonly columns: readonly string[];
};

/** A trigger `<table>_append_only` marks a table that is only ever added to. */
const listTables = async (client: Client): Promise<readonly Table[]> => {
  const { rows } = await client.query<Table>(`
    SELECT
      relname AS name,
      ARRAY(
        SELECT attname::text FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
        ORDER BY attnum
      ) AS columns,
      EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND tgname = relname || '_append_only') AS "isAppendOnly"
    FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    ORDER BY relname
  `);
  return rows;
};

/** What the programs only read: migrations write it. */
const READ_ONLY = new Set(["schema_migration"]);

const appPrivileges = ({ name, isAppendOnly }: Table): string => {
  if (READ_ONLY.has(name)) {
    return "SELECT";
  }
  return isAppendOnly ? "SELECT, INSERT" : "SELECT, INSERT, UPDATE, DELETE";
};

/** Columns that open or sign something, can be guessed from their hash, or protect idempotency keys from such guesses. */
const SECRET_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  api_key: ["hash"],
  idempotency_key: ["request_hash"],
  certificate: ["token"],
  deployment: ["idempotency_secret"],
  webhook_endpoint: ["url", "secret", "previous_secret"],
};

const readerPrivileges = ({ name, columns }: Table): string => {
  const secrets = SECRET_COLUMNS[name];
  return secrets === undefined
    ? "SELECT"
    : `SELECT (${columns
        .filter((column) => !secrets.includes(column))
        .map(escapeIdentifier)
        .join(", ")})`;
};

const grantTables = (
  session: Session,
  role: string,
  tables: readonly Table[],
  privilegesOf: (table: Table) => string,
): readonly string[] =>
  tables.flatMap((table) => {
    const name = `${escapeIdentifier(session.schema)}.${escapeIdentifier(table.name)}`;
    return [
      `REVOKE ALL ON ${name} FROM ${role}`,
      `GRANT ${privilegesOf(table)} ON ${name} TO ${role}`,
    ];
  });

const appStatements = (
  session: Session,
  name: string,
  tables: readonly Table[],
): readonly string[] => {
  const role = escapeIdentifier(name);
  const schema = escapeIdentifier(session.schema);
  return [
    `GRANT CONNECT ON DATABASE ${escapeIdentifier(session.database)} TO ${role}`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    ...grantTables(session, role, tables, appPrivileges),
    `GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`,
    // For the moment between a later migration and its grants, while the previous release is still running.
    `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT SELECT, INSERT, UPDATE ON TABLES TO ${role}`,
    `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT USAGE ON SEQUENCES TO ${role}`,
  ];
};

const readerStatements = (
  session: Session,
  name: string,
  tables: readonly Table[],
): readonly string[] => {
  const role = escapeIdentifier(name);
  const schema = escapeIdentifier(session.schema);
  return [
    `GRANT CONNECT ON DATABASE ${escapeIdentifier(session.database)} TO ${role}`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    ...grantTables(session, role, tables, readerPrivileges),
    `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} GRANT SELECT ON TABLES TO ${role}`,
  ];
};

/**
 * Gives the roles exactly the privileges that they need, and creates them if they are missing. A role that is the owner
 * itself keeps what it has, so one role for everything works.
 * @throws DatabaseRoleError if a role is missing and the owner may not create it, or if both are the same
 */
export const grantPrivileges = async (
  client: Client,
  { appUrl, readerUrl }: DatabaseRoles,
): Promise<void> => {
  const session = await readSession(client);
  const app = appUrl === null ? null : roleOf(appUrl);
  const reader = readerUrl === null ? null : roleOf(readerUrl);
  if (reader !== null && (reader.name === session.owner || reader.name === app?.name)) {
    throw new DatabaseRoleError(
      `The role ${reader.name} also writes. Set DATABASE_READER_URL to a role that only reads.`,
    );
  }
  const separateApp = app?.name === session.owner ? null : app;
  const roles = [separateApp, reader].filter((role) => role !== null);
  if (roles.length === 0) {
    return;
  }
  for (const role of roles) {
    await ensureRole(client, session, role);
  }
  const tables = await listTables(client);
  // One query without parameters is one transaction, so no session sees a table between REVOKE and GRANT.
  await client.query(
    [
      // In databases that were created before PostgreSQL 15, every role may create tables.
      `REVOKE CREATE ON SCHEMA ${escapeIdentifier(session.schema)} FROM PUBLIC`,
      ...(separateApp === null ? [] : appStatements(session, separateApp.name, tables)),
      ...(reader === null ? [] : readerStatements(session, reader.name, tables)),
    ].join(";\n"),
  );
};
