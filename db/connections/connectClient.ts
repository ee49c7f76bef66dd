import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import type { ClientBase, ClientConfig } from "pg";
import { connectTimeoutOf, readDatabaseServers, requireWritable } from "./databaseServers.ts";
import type { Server } from "./databaseServers.ts";
import { TLSSocket } from "node:tls";
import type { SslMode } from "../../runtime/config/databaseUrl.rules.ts";

export type Connected = {
  readonly client: Client;
  readonly server: Server;
  /** Waits, but fails as soon as the connection is lost, with the reason. A later query would fail without it. */
  readonly pause: (timeoutMs: number) => Promise<void>;
};

/**
 * @param timeoutMs after it the server is considered lost
 * @throws ReadOnlyServerError
 */
const requireWritableClient = async (client: ClientBase, timeoutMs: number): Promise<void> => {
  // The library's types lack the timeout of a single query.
  const check = { text: "SHOW transaction_read_only", query_timeout: timeoutMs };
  const { rows } = await client.query<Record<string, unknown>>(check);
  requireWritable(rows[0]?.["transaction_read_only"]);
};

/** Opens one connection outside of a pool, which the caller ends. */
export const connectClient = (
  url: string,
  {
    connectionTimeoutMillis,
    ...options
  }: ClientConfig & { readonly connectionTimeoutMillis: number },
): Promise<Connected> => {
  const servers = readDatabaseServers(url);
  return servers.open(async (server) => {
    const connectTimeoutMs = connectTimeoutOf(servers, connectionTimeoutMillis);
    const client = new Client({
      ...server.config,
      ...options,
      connectionTimeoutMillis: connectTimeoutMs,
    });
    // Without a listener, the loss of the connection would end the program.
    const lost = new Promise<never>((_resolve, reject) => {
      client.on("error", reject);
    });
    lost.catch(() => undefined);
    await client.connect();
    try {
      if (servers.mustAcceptWrites) {
        await requireWritableClient(client, connectTimeoutMs);
      }
    } catch (error) {
      await client.end();
      throw error;
    }
    return { client, server, pause: (timeoutMs) => Promise.race([lost, delay(timeoutMs)]) };
  });
};

/** How the connection to a database is protected on its way. */
type Encryption = {
  /** `host:port` of the server in use. */
  readonly server: string;
  /** Null if it is plain text. */
  readonly tls: {
    readonly protocol: string;
    readonly cipher: string;
    /** What was verified of the server's certificate. */
    readonly verified: "nothing" | "certificate" | "certificate and host name";
    /** Whether the client presents a certificate. */
    readonly hasClientCertificate: boolean;
  } | null;
};

const CONNECT_TIMEOUT_MS = 5000;

const verifiedBy = (
  mode: SslMode,
  hasRootCertificate: boolean,
): NonNullable<Encryption["tls"]>["verified"] => {
  if (mode === "verify-full") {
    return "certificate and host name";
  }
  // As for libpq, `require` with a root certificate verifies like `verify-ca`.
  return mode === "verify-ca" || hasRootCertificate ? "certificate" : "nothing";
};

/** Connects to the database as the programs do, and returns how that connection is encrypted. */
export const readEncryption = async (url: string): Promise<Encryption> => {
  const { client, server } = await connectClient(url, {
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  try {
    const { stream } = client.connection;
    return {
      server: server.name,
      tls:
        stream instanceof TLSSocket
          ? {
              protocol: stream.getProtocol() ?? "",
              cipher: stream.getCipher().name,
              verified: verifiedBy(server.sslMode, server.tls?.ca !== undefined),
              hasClientCertificate: server.tls?.cert !== undefined,
            }
          : null,
    };
  } finally {
    await client.end();
  }
};
