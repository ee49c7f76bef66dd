import { Client, Connection } from "@temporalio/client";
import { loadClientConnectConfig } from "@temporalio/envconfig";
import type { ClientConnectConfig } from "@temporalio/envconfig";

/**
 * How to reach Temporal, from Temporal's own environment configuration: `TEMPORAL_ADDRESS` (localhost:7233 by default),
 * `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS…` and its configuration file.
 */
export const readTemporalConfig = (): ClientConnectConfig & { readonly namespace: string } => {
  const { connectionOptions, namespace = "default" } = loadClientConnectConfig();
  return { connectionOptions, namespace };
};

/**
 * Opens a client without connecting, since programs start while Temporal is down. Every call needs a deadline
 * (`client.withDeadline`): without one it takes 17 s to fail.
 */
export const openTemporalClient = (): Client => {
  const {
    connectionOptions: { address, tls, apiKey, metadata },
    namespace,
  } = readTemporalConfig();
  return new Client({
    namespace,
    connection: Connection.lazy({
      ...(address === undefined ? {} : { address }),
      ...(tls === undefined ? {} : { tls }),
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(metadata === undefined ? {} : { metadata }),
    }),
  });
};
