import { TLSSocket } from "node:tls";
import type { SslMode } from "../../runtime/config/databaseUrl.rules.ts";
import { connectClient } from "./connectClient.ts";

/** How the connection to a database is protected on its way. */
export type Encryption = {
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
