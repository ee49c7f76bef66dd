import type { ConnectionOptions } from "node:tls";
import { Client } from "pg";
import type { ClientConfig } from "pg";
import { parse, toClientConfig } from "pg-connection-string";
import { parseDatabaseUrl } from "../../runtime/config/databaseUrl.rules.ts";
import type { DatabaseUrl, SslMode } from "../../runtime/config/databaseUrl.rules.ts";

const SET_ROOT_CERTIFICATE = "set sslrootcert to the certificate of the CA that signs the server's";

/** What an operator can do, by Node's code of the error. */
const ADVICE: Readonly<Record<string, string>> = {
  SELF_SIGNED_CERT_IN_CHAIN: SET_ROOT_CERTIFICATE,
  DEPTH_ZERO_SELF_SIGNED_CERT: SET_ROOT_CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: SET_ROOT_CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: SET_ROOT_CERTIFICATE,
  CERT_HAS_EXPIRED: "renew the server's certificate",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "use a name of the certificate in the URL, or sslmode=verify-ca if the CA signs for your servers only",
};

/** The driver's error has no code. */
const NO_TLS = "The server does not support SSL connections";

/** Adds what an operator can do to an error of TLS, and returns other errors unchanged. */
const explainTlsError = (error: unknown): unknown => {
  if (!(error instanceof Error)) {
    return error;
  }
  if (error.message === NO_TLS) {
    return new Error(
      "the server does not accept encrypted connections; turn them on there, or set sslmode=disable to send everything in plain text",
      { cause: error },
    );
  }
  const advice = "code" in error ? ADVICE[String(error.code)] : undefined;
  return advice === undefined
    ? error
    : new Error(`${error.message.replace(/\.$/u, "")}; ${advice}`, { cause: error });
};

/** How to connect to one of the servers of a database. */
export type Server = {
  /** `host:port`, or the folder of a Unix socket. */
  readonly name: string;
  readonly sslMode: SslMode;
  readonly config: ClientConfig;
  /** The same for slonik, whose own reader of URLs knows fewer of them. */
  readonly dsn: string;
  readonly tls: ConnectionOptions | undefined;
};

export type DatabaseServers = {
  readonly list: readonly Server[];
  /** Whether a server that accepts no writes is passed over. */
  readonly mustAcceptWrites: boolean;
  /**
   * Opens a connection to the first server for which that succeeds, beginning with the one that succeeded last.
   * @throws what the only server's attempt throws, or NoServerError
   */
  readonly open: <Result>(attempt: (server: Server) => Promise<Result>) => Promise<Result>;
};

/** None of the servers of a database can be used; the message has the reason for each. */
class NoServerError extends Error {
  override readonly name = "NoServerError";
  /** That of the first server's error. */
  readonly code: unknown;

  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  }
}

/** The server is up and accepts no writes, as a standby. */
class ReadOnlyServerError extends Error {
  override readonly name = "ReadOnlyServerError";

  constructor() {
    super("the server accepts no writes");
  }
}

/** Shorter than with one server, because the next one can be tried. */
const CONNECT_TIMEOUT_OF_SEVERAL_MS = 5000;

/** Returns how long an attempt to connect to one server may take. */
export const connectTimeoutOf = ({ list }: DatabaseServers, timeoutMs: number): number =>
  list.length > 1 ? Math.min(timeoutMs, CONNECT_TIMEOUT_OF_SEVERAL_MS) : timeoutMs;

/**
 * @param result of `SHOW transaction_read_only`
 * @throws ReadOnlyServerError
 */
export const requireWritable = (result: unknown): void => {
  if (result !== "off") {
    throw new ReadOnlyServerError();
  }
};

const encodeDsn = ({ application_name: applicationName, options, ...config }: ClientConfig) => {
  // The driver fills in what is missing: PGUSER, the port 5432 and so on.
  const { host, port, user = "", database = "", password } = new Client(config);
  const parameters = new URLSearchParams({
    ...(applicationName === undefined ? {} : { application_name: applicationName }),
    ...(options === undefined ? {} : { options }),
  }).toString();
  const login = [user, ...(typeof password === "string" ? [password] : [])]
    .map(encodeURIComponent)
    .join(":");
  return `postgres://${login}@${encodeURIComponent(host)}:${port}/${encodeURIComponent(database)}?${parameters}`;
};

/** If a host has several addresses that all refuse, Node's error has no message. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) {
    return String(error);
  }
  return error.message === "" && "code" in error ? String(error.code) : error.message;
};

const readServers = (servers: DatabaseUrl["servers"]): readonly Server[] =>
  servers.map(({ name, url: serverUrl, sslMode }): Server => {
    const { ssl, ...config } = toClientConfig(parse(serverUrl, { useLibpqCompat: true }));
    const tls = typeof ssl === "object" ? ssl : undefined;
    return {
      name,
      sslMode,
      config: { ...config, ssl: tls ?? false },
      dsn: encodeDsn({ ...config, ssl: false }),
      tls,
    };
  });

/**
 * Reads how to connect to the servers that a database's URL names, and the files that it names.
 * @throws DatabaseUrlError
 */
export const readDatabaseServers = (url: string): DatabaseServers => {
  const { servers, mustAcceptWrites } = parseDatabaseUrl(url);
  const list = readServers(servers);
  let current = 0;
  return {
    list,
    mustAcceptWrites,
    open: async (attempt) => {
      const failures: { readonly name: string; readonly error: unknown }[] = [];
      const started = current;
      for (const offset of list.keys()) {
        const index = (started + offset) % list.length;
        const server = list[index];
        if (server) {
          try {
            const result = await attempt(server);
            current = index;
            return result;
          } catch (error) {
            failures.push({ name: server.name, error: explainTlsError(error) });
          }
        }
      }
      const [first, ...others] = failures;
      if (others.length === 0) {
        throw first?.error;
      }
      throw new NoServerError(
        failures.map(({ name, error }) => `${name}: ${reasonOf(error)}`).join("; "),
        first?.error,
      );
    },
  };
};
