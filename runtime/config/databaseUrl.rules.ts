/**
 * The URL of a PostgreSQL database, as libpq and psql read it: it may name several hosts, and its parameters say how the
 * connection is encrypted. Every connection of the service reads it here, so all of them are encrypted alike.
 */

import { isLoopback } from "../loopback.rules.ts";

/** How a connection is encrypted, and what is verified of the server's certificate. */
export const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
export type SslMode = (typeof SSL_MODES)[number];

/** One of the servers of a database. */
type DatabaseServer = {
  /** `host:port`, or the folder of a Unix socket. */
  readonly name: string;
  /** The URL with this host alone, and with the parameters that a driver reads. */
  readonly url: string;
  readonly sslMode: SslMode;
};

export type DatabaseUrl = {
  /** In the order in which they are tried. */
  readonly servers: readonly DatabaseServer[];
  /** Whether a server that accepts no writes, such as a standby, is passed over. */
  readonly mustAcceptWrites: boolean;
  /** The files that the URL names, by parameter. */
  readonly files: ReadonlyMap<string, string>;
};

/** A URL of a database cannot be used. The message says what is wrong, with the URL as its subject. */
export class DatabaseUrlError extends Error {
  override readonly name = "DatabaseUrlError";
}

const FORM = "must be a URL like postgres://user:password@host:port/database";

const PARTS =
  /^(?<start>postgres(?:ql)?:\/\/(?:[^/?#]*@)?)(?<hosts>[^/?#@]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/u;

/** The parameters of TLS that name files. */
const FILES = ["sslrootcert", "sslcert", "sslkey"] as const;

/** What every connection of the service honours. */
const PARAMETERS: ReadonlySet<string> = new Set([
  "sslmode",
  ...FILES,
  "target_session_attrs",
  "application_name",
  "options",
  "host",
  "port",
  "user",
  "password",
]);

/** The folder of a Unix socket, in a URL with its slashes encoded. */
const isSocket = (host: string): boolean => host.startsWith("/") || /^%2f/iu.test(host);

const withoutPort = (host: string): string => host.replace(/:\d*$/u, "");

/** An empty host is the default, a server on this machine. */
const isOnThisMachine = (host: string): boolean =>
  host === "" || isSocket(host) || isLoopback(withoutPort(host));

const isOneOf = <Value extends string>(values: readonly Value[], value: string): value is Value =>
  values.some((known) => known === value);

/** @throws DatabaseUrlError if the mode is unknown, or would send plain text over a network without being told to */
const decideSslMode = (given: string | null, isLocal: boolean): SslMode => {
  if (given === null) {
    return isLocal ? "disable" : "require";
  }
  if (isOneOf(SSL_MODES, given)) {
    return given;
  }
  if (given !== "prefer" && given !== "allow") {
    throw new DatabaseUrlError(`has an unknown sslmode; supported: ${SSL_MODES.join(", ")}`);
  }
  if (!isLocal) {
    throw new DatabaseUrlError(
      `has sslmode=${given}, which may send everything in plain text; set require, verify-ca or verify-full, or disable for plain text`,
    );
  }
  return "disable";
};

const decideWrites = (given: string | null, hosts: number): boolean => {
  switch (given) {
    case null:
      return hosts > 1;
    case "any":
      return false;
    case "read-write":
    case "primary":
      return true;
    default:
      throw new DatabaseUrlError(
        "has an unknown target_session_attrs; supported, because the service writes: read-write, primary, any",
      );
  }
};

/**
 * Checks the parameters. libpq reads `ssl=true`, which other drivers have, as `sslmode=require`.
 * @throws DatabaseUrlError
 */
const readParameters = (parameters: URLSearchParams): void => {
  if (parameters.get("ssl") === "true" && !parameters.has("sslmode")) {
    parameters.set("sslmode", "require");
  }
  parameters.delete("ssl");
  parameters.delete("uselibpqcompat");
  if (parameters.get("channel_binding") === "require") {
    throw new DatabaseUrlError(
      "has channel_binding=require, which is not supported; remove it, and set sslmode=verify-full to be sure of the server",
    );
  }
  // The other values demand nothing.
  parameters.delete("channel_binding");
  for (const name of parameters.keys()) {
    if (!PARAMETERS.has(name)) {
      throw new DatabaseUrlError(
        `has ${name}, which is not supported; supported: ${[...PARAMETERS].join(", ")}`,
      );
    }
  }
  if (parameters.has("sslcert") !== parameters.has("sslkey")) {
    throw new DatabaseUrlError("has only one of sslcert and sslkey; set both");
  }
};

/** A password with a character that ends the part of a URL before the `@`. */
const UNENCODED_PASSWORD = /^postgres(?:ql)?:\/\/[^:@/?#]*:[^@/?#]*(?:\/[^@?#]*|\?[^@=]*|#[^@]*)@/u;

const splitUrl = (text: string) => {
  if (UNENCODED_PASSWORD.test(text)) {
    throw new DatabaseUrlError("has a /, ? or # in its password; write it as %2F, %3F or %23");
  }
  const { start, hosts, path = "", query = "" } = PARTS.exec(text)?.groups ?? {};
  if (start === undefined || hosts === undefined) {
    throw new DatabaseUrlError(FORM);
  }
  return { start, hosts: hosts.split(","), path, parameters: new URLSearchParams(query) };
};

/**
 * Parses the URL of a database.
 * @throws DatabaseUrlError
 */
export const parseDatabaseUrl = (text: string): DatabaseUrl => {
  const { start, hosts, path, parameters } = splitUrl(text);
  readParameters(parameters);
  const given = parameters.get("sslmode");
  const mustAcceptWrites = decideWrites(parameters.get("target_session_attrs"), hosts.length);
  parameters.delete("target_session_attrs");
  if (parameters.get("host")?.includes(",") === true) {
    throw new DatabaseUrlError(
      "names several hosts in a parameter; write them like postgres://user:password@host1:5432,host2:5432/database",
    );
  }
  const isLocal = hosts.every((host) => isOnThisMachine(parameters.get("host") ?? host));
  const mode = decideSslMode(given, isLocal);
  if (mode === "verify-ca" && !parameters.has("sslrootcert")) {
    throw new DatabaseUrlError(
      "has sslmode=verify-ca without sslrootcert, the certificate of the CA that signs the server's",
    );
  }
  const servers = hosts.map((authority) => {
    const url = `${start}${authority}${path}`;
    // Only the URL class rejects a malformed port or address. It accepts no user without a host, which libpq does.
    if ((hosts.length > 1 && authority === "") || !URL.canParse(url.replace("@/", "@localhost/"))) {
      throw new DatabaseUrlError(FORM);
    }
    const host = parameters.get("host") ?? authority;
    // A Unix socket stays on this machine, so it has no TLS.
    const sslMode = isSocket(host) ? "disable" : mode;
    const own = new URLSearchParams(parameters);
    own.set("sslmode", sslMode);
    if (host === "") {
      // The driver would connect to PGHOST, which may be another machine.
      own.set("host", "localhost");
    }
    return { name: host === "" ? "localhost" : host, url: `${url}?${own.toString()}`, sslMode };
  });
  return {
    servers,
    mustAcceptWrites,
    files: new Map(
      FILES.flatMap((name) => {
        const file = parameters.get(name);
        return file === null ? [] : [[name, file] as const];
      }),
    ),
  };
};

/** Returns the URL with these parameters, except those that it has itself. Undefined ones are left out. */
export const completeDatabaseUrl = (
  text: string,
  defaults: Readonly<Record<string, string | undefined>>,
): string => {
  const { parameters } = splitUrl(text);
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(defaults)) {
    if (value !== undefined && !parameters.has(name)) {
      added.set(name, value);
    }
  }
  return added.size === 0 ? text : `${text}${text.includes("?") ? "&" : "?"}${added.toString()}`;
};

/** Returns the hosts and the name of a database, without its user, password and parameters. */
export const nameDatabase = (text: string): string => {
  const { hosts, path, parameters } = splitUrl(text);
  return `${parameters.get("host") ?? hosts.join(",")}${path}`;
};

/** Returns the URL without its password, which should not appear in a terminal. */
export const withoutPassword = (text: string): string =>
  text.replace(/^(?<start>[^:]+:\/\/[^/?#]*?):[^/?#]*@/u, "$<start>@");
