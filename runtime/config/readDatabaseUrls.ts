import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { completeDatabaseUrl, DatabaseUrlError, parseDatabaseUrl } from "./databaseUrl.rules.ts";

const URL_SETTINGS = ["DATABASE_URL", "DATABASE_OWNER_URL"] as const;

/** libpq's variables for parameters of the URLs. */
const VARIABLES = {
  PGSSLMODE: "sslmode",
  PGSSLROOTCERT: "sslrootcert",
  PGSSLCERT: "sslcert",
  PGSSLKEY: "sslkey",
  PGTARGETSESSIONATTRS: "target_session_attrs",
} as const;

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Returns what is wrong with the certificates and the key, or null. */
const findFileFault = (files: ReadonlyMap<string, string>): string | null => {
  const contents: Record<string, string> = {};
  for (const [parameter, path] of files) {
    try {
      contents[parameter] = readFileSync(path, "utf8");
    } catch (error) {
      return `has ${parameter}, which must be a file that can be read: ${messageOf(error)}`;
    }
  }
  const { sslrootcert: ca, sslcert: cert, sslkey: key } = contents;
  try {
    createSecureContext({ cert, key });
    if (ca !== undefined) {
      // A secure context ignores what is not a certificate.
      void new X509Certificate(ca);
    }
    return null;
  } catch (error) {
    const names = [...files.keys()].join(", ");
    return `has ${names}, which must be PEM files, and the key of the certificate: ${messageOf(error)}`;
  }
};

/** Completes the URLs of the database with libpq's variables. A fault is a line that says what to do. */
export const readDatabaseUrls = (
  given: Readonly<Record<string, string | undefined>>,
): { readonly urls: Readonly<Record<string, string>>; readonly faults: readonly string[] } => {
  const defaults = Object.fromEntries(
    Object.entries(VARIABLES).map(([variable, parameter]) => [parameter, given[variable]]),
  );
  const urls: Record<string, string> = {};
  const faults: string[] = [];
  for (const name of URL_SETTINGS) {
    const url = given[name];
    if (url !== undefined) {
      try {
        urls[name] = completeDatabaseUrl(url, defaults);
        const fault = findFileFault(parseDatabaseUrl(urls[name]).files);
        if (fault !== null) {
          faults.push(`${name} ${fault}`);
        }
      } catch (error) {
        if (!(error instanceof DatabaseUrlError)) {
          throw error;
        }
        faults.push(`${name} ${error.message}`);
      }
    }
  }
  return { urls, faults };
};
