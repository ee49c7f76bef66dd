/**
 * The URL of a PostgreSQL database, as libpq and psql read it: it may name several hosts, and its parameters say how the
 * connection is encrypted. Every connection of the service reads it here, so all of them are encrypted alike.
 */

import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { parse, toClientConfig } from "pg-connection-string";
import { errorDetails } from "../errors.rules.ts";
import { isLoopback } from "../loopback.rules.ts";

/** How a connection is encrypted, and what is verified of the server's certificate. */
const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
type SslMode = (typeof SSL_MODES)[number];

export type DatabaseServer = {
  /** `host:port`, or the folder of a Unix socket. */
  readonly name: string;
  readonly sslMode: SslMode;
  /** Undefined for plain text. */
  readonly tls: ConnectionOptions | undefined;
  readonly config: ReturnType<typeof toClientConfig>;
};

const FORM =
  "must be a URL like postgres://user:password@host:port/database, with %2F, %3F and %23 for /, ? and # in the password";

const PARTS =
  /^(?<start>postgres(?:ql)?:\/\/(?:[^/?#]*@)?)(?<hosts>[^/?#@]*)(?<path>\/[^?#@]*)?(?:\?(?<query>(?![^=]*@)[^#]*))?$/u;

/** libpq's variables, by the parameters of which they are the defaults. */
const VARIABLES = {
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  target_session_attrs: "PGTARGETSESSIONATTRS",
} as const;

export const LIBPQ_VARIABLES: readonly string[] = Object.values(VARIABLES);

/** What every connection of the service honours. */
const PARAMETERS: readonly string[] = [
  ...Object.keys(VARIABLES),
  "application_name",
  "options",
  "host",
  "port",
  "user",
  "password",
];

/** The folder of a Unix socket, in a URL with its slashes encoded. */
const isSocket = (host: string): boolean => host.startsWith("/") || /^%2f/iu.test(host);

/** An empty host is the default, a server on this machine. */
const isOnThisMachine = (host: string): boolean =>
  host === "" || isSocket(host) || isLoopback(host.replace(/:\d*$/u, ""));

/** @throws Error if the mode is unknown, or would send plain text over a network without being told to */
const decideSslMode = (given: string | null, isLocal: boolean): SslMode => {
  const isOptional = given === null || given === "prefer" || given === "allow";
  if (isOptional && isLocal) {
    return "disable";
  }
  const mode = given === null ? "require" : SSL_MODES.find((known) => known === given);
  if (mode === undefined) {
    throw new Error(
      isOptional
        ? `has sslmode=${given}, which may send everything in plain text; set require, verify-ca or verify-full, or disable for plain text`
        : `has an unknown sslmode; supported: ${SSL_MODES.join(", ")}`,
    );
  }
  return mode;
};

const decideWrites = (given: string | null, hosts: number): boolean => {
  if (given !== null && !["any", "read-write", "primary"].includes(given)) {
    throw new Error(
      "has an unknown target_session_attrs; supported, because the service writes: read-write, primary, any",
    );
  }
  return given === null ? hosts > 1 : given !== "any";
};

const splitUrl = (text: string) => {
  const { start, hosts, path = "", query = "" } = PARTS.exec(text)?.groups ?? {};
  if (start === undefined || hosts === undefined) {
    throw new Error(FORM);
  }
  return { start, hosts: hosts.split(","), path, parameters: new URLSearchParams(query) };
};

const readServer = (name: string, url: string, sslMode: SslMode): DatabaseServer => {
  try {
    const { ssl, ...config } = toClientConfig(parse(url, { useLibpqCompat: true }));
    const tls = typeof ssl === "object" && sslMode !== "disable" ? ssl : undefined;
    createSecureContext(tls);
    if (tls?.ca !== undefined) {
      // A secure context ignores what is not a certificate.
      void new X509Certificate(String(tls.ca));
    }
    return { name, sslMode, tls, config: { ...config, ssl: tls ?? false } };
  } catch (error) {
    throw new Error(
      `has sslrootcert, sslcert or sslkey, which must be PEM files that can be read, and the key of the certificate: ${errorDetails(error).message}`,
      { cause: error },
    );
  }
};

/**
 * Reads the URL of a database, and the files that it names.
 * @throws Error that says what is wrong, with the URL as its subject
 */
export const readDatabaseUrl = (text: string) => {
  const { start, hosts, path, parameters } = splitUrl(text);
  const unknown = [...parameters.keys()].find((name) => !PARAMETERS.includes(name));
  if (unknown !== undefined) {
    throw new Error(`has ${unknown}, which is not supported; supported: ${PARAMETERS.join(", ")}`);
  }
  if (parameters.has("sslcert") !== parameters.has("sslkey")) {
    throw new Error("has only one of sslcert and sslkey; set both");
  }
  const hostOf = (authority: string): string => parameters.get("host") ?? authority;
  const mode = decideSslMode(
    parameters.get("sslmode"),
    hosts.every((authority) => isOnThisMachine(hostOf(authority))),
  );
  if (mode === "verify-ca" && !parameters.has("sslrootcert")) {
    throw new Error(
      "has sslmode=verify-ca without sslrootcert, the certificate of the CA that signs the server's",
    );
  }
  const servers = hosts.map((authority) => {
    const url = `${start}${authority}${path}`;
    // Only the URL class rejects a malformed port or address. It accepts no user without a host, which libpq does.
    if ((hosts.length > 1 && authority === "") || !URL.canParse(url.replace("@/", "@localhost/"))) {
      throw new Error(FORM);
    }
    // The driver would connect to PGHOST, which may be another machine.
    const name = hostOf(authority) || "localhost";
    // A Unix socket stays on this machine, so it has no TLS.
    const sslMode = isSocket(name) ? "disable" : mode;
    const own = new URLSearchParams(parameters);
    own.set("sslmode", sslMode);
    if (authority === "") {
      own.set("host", name);
    }
    return readServer(name, `${url}?${own.toString()}`, sslMode);
  });
  return {
    /** In the order in which they are tried. */
    servers,
    /** Whether a server that accepts no writes, such as a standby, is passed over. */
    mustAcceptWrites: decideWrites(parameters.get("target_session_attrs"), hosts.length),
  };
};

/** Returns how the connections to a database are encrypted, and what is verified of its certificate. */
export const describeEncryption = (url: string): string => {
  const [{ sslMode, tls } = {}] = readDatabaseUrl(url).servers;
  if (tls === undefined) {
    return "plain text";
  }
  // As for libpq, `require` with a root certificate verifies like `verify-ca`.
  const unverified =
    tls.ca === undefined
      ? "certificate not verified; sslmode=verify-full verifies it"
      : "certificate verified, host name not verified";
  const verified = sslMode === "verify-full" ? "certificate and host name verified" : unverified;
  return `encrypted, ${tls.cert === undefined ? "" : "with a client certificate, "}${verified}`;
};

/** Returns the URL, which may be malformed, with the parameters of libpq's variables, except those that it has itself. */
export const completeDatabaseUrl = (
  text: string,
  variables: Readonly<Record<string, string>>,
): string => {
  const own = new URLSearchParams(text.replace(/^[^?]*/u, ""));
  const added = new URLSearchParams();
  for (const [parameter, variable] of Object.entries(VARIABLES)) {
    const value = variables[variable];
    if (value !== undefined && !own.has(parameter)) {
      added.set(parameter, value);
    }
  }
  return added.size === 0 ? text : `${text}${text.includes("?") ? "&" : "?"}${added.toString()}`;
};

/** Returns the hosts and the name of a database, without its user, password and parameters. */
export const nameDatabase = (text: string): string => {
  const { hosts, path, parameters } = splitUrl(text);
  return `${parameters.get("host") ?? hosts.join(",")}${path}`;
};
