import { Client } from "pg";
import type { ClientConfig } from "pg";
import { nameDatabase, readDatabaseUrl } from "../../runtime/config/databaseUrl.ts";
import type { DatabaseServer } from "../../runtime/config/databaseUrl.ts";
import { codeOf, StartupError, UnavailableError } from "../../runtime/errors.rules.ts";

const SET_ROOT_CERTIFICATE = "set sslrootcert to the certificate of the CA that signs the server's";

/** What an operator can do, by Node's code of the error, or by the message of a driver's error that has no code. */
const ADVICE: Readonly<Record<string, string>> = {
  SELF_SIGNED_CERT_IN_CHAIN: SET_ROOT_CERTIFICATE,
  DEPTH_ZERO_SELF_SIGNED_CERT: SET_ROOT_CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: SET_ROOT_CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: SET_ROOT_CERTIFICATE,
  CERT_HAS_EXPIRED: "renew the server's certificate",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "use a name of the certificate in the URL, or sslmode=verify-ca if the CA signs for your servers only",
  "The server does not support SSL connections":
    "turn encrypted connections on there, or set sslmode=disable to send everything in plain text",
};

const adviceFor = (error: Error): string | undefined =>
  error.message.includes("unsupported startup parameter")
    ? "it is a pooler's: add the parameter to ignore_startup_parameters in pgbouncer.ini"
    : (ADVICE[codeOf(error)] ?? ADVICE[error.message]);

const explain = (error: unknown): unknown => {
  const advice = error instanceof Error ? adviceFor(error) : undefined;
  return error instanceof Error && advice !== undefined
    ? new Error(`${error.message.replace(/\.$/u, "")}; ${advice}`, { cause: error })
    : error;
};

/** Returns the message of an error. If a host has several addresses that all refuse, Node's error has only a code. */
const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message || codeOf(error) : String(error);

/** PostgreSQL's codes for a role that does not exist, or that may not connect or see the tables. */
const UNPREPARED_ROLE: ReadonlySet<string> = new Set(["28000", "28P01", "42501"]);

export type DatabaseSetting = "DATABASE_URL" | "DATABASE_OWNER_URL";

/** Returns the error for a database that cannot be used. It names the database without its password. */
export const unusableDatabaseError = (
  databaseUrl: string,
  setting: DatabaseSetting,
  given: unknown,
): StartupError => {
  // That of a pool is for a client.
  const error = given instanceof UnavailableError ? given.cause : given;
  // Of several servers, the first one's error is the cause.
  const isUnprepared = [error, error instanceof Error && error.cause].some((each) =>
    UNPREPARED_ROLE.has(codeOf(each)),
  );
  // Only the owner's role exists before the first migration.
  const advice =
    setting === "DATABASE_URL" && isUnprepared
      ? " If this release has not been migrated yet, run: npm run -s impact -- migrate"
      : "";
  return new StartupError(
    `The database at ${nameDatabase(databaseUrl)} cannot be used: ${reasonOf(error)}. Check ${setting}.${advice}`,
    { cause: given },
  );
};

type ConnectOptions = ClientConfig & { readonly connectionTimeoutMillis: number };
export type Connection = {
  readonly client: Client;
  readonly server: DatabaseServer;
  /**
   * Whether the session is that of a pooler, such as PgBouncer in transaction mode: each transaction, and each single
   * statement, may run on another connection of the server.
   */
  readonly isPooled: boolean;
};

const connectTo = async (
  server: DatabaseServer,
  options: ConnectOptions,
  mustAcceptWrites: boolean,
): Promise<Connection> => {
  const client = new Client({ ...server.config, ...options });
  // Without a listener, the loss of the connection would end the program.
  client.on("error", () => undefined);
  await client.connect();
  try {
    // The library's types lack the timeout of a single query.
    const check = {
      text: `SELECT pg_backend_pid() AS pid, current_setting('transaction_read_only') = 'off' AS "acceptsWrites"`,
      query_timeout: options.connectionTimeoutMillis,
    };
    const { rows } = await client.query<{ pid: number; acceptsWrites: boolean }>(check);
    if (mustAcceptWrites && rows[0]?.acceptsWrites !== true) {
      throw new Error("the server accepts no writes");
    }
    // A server has named its own process, and a pooler a number that it has made up. The library's types lack the number.
    const isPooled = !("processID" in client && client.processID === rows[0]?.pid);
    return { client, server, isPooled };
  } catch (error) {
    // A vanished server does not confirm the end.
    client.connection.stream.destroy();
    throw error;
  }
};

/** Shorter than with one server, because the next one can be tried. */
const CONNECT_TIMEOUT_OF_SEVERAL_MS = 5000;

/**
 * Returns a function that opens connections to the first server of a database that can be used, beginning with the one that
 * was used last.
 * @throws Error if the URL is malformed, now; later the error of the only server, or one with the reason for each of several
 */
export const createConnect = (url: string): ((options: ConnectOptions) => Promise<Connection>) => {
  const { servers, mustAcceptWrites } = readDatabaseUrl(url);
  const maximumTimeoutMs = servers.length > 1 ? CONNECT_TIMEOUT_OF_SEVERAL_MS : Infinity;
  let current = 0;
  return async (options) => {
    const connectionTimeoutMillis = Math.min(options.connectionTimeoutMillis, maximumTimeoutMs);
    const limited = { ...options, connectionTimeoutMillis };
    const failures: { readonly name: string; readonly error: unknown }[] = [];
    const order = [...servers.entries()];
    for (const [index, server] of [...order.slice(current), ...order.slice(0, current)]) {
      try {
        const connection = await connectTo(server, limited, mustAcceptWrites);
        current = index;
        return connection;
      } catch (error) {
        failures.push({ name: server.name, error: explain(error) });
      }
    }
    const [first, ...others] = failures;
    if (others.length === 0) {
      throw first?.error;
    }
    throw new Error(failures.map(({ name, error }) => `${name}: ${reasonOf(error)}`).join("; "), {
      cause: first?.error,
    });
  };
};
