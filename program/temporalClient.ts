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
 * Opens a client without connecting, since programs start while Temporal is down. Every call needs a limit
 * (`withTemporalDeadline`): without one it takes 17 s to fail.
 * @param at where it is, when somebody knows better than the configuration
 */
export const openTemporalClient = (
  at: { readonly address?: string; readonly namespace?: string | undefined } = {},
): Client => {
  const {
    connectionOptions: { address: configured, tls, apiKey, metadata },
    namespace,
  } = readTemporalConfig();
  const address = at.address ?? configured;
  return new Client({
    namespace: at.namespace ?? namespace,
    connection: Connection.lazy({
      ...(address === undefined ? {} : { address }),
      ...(tls === undefined ? {} : { tls }),
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(metadata === undefined ? {} : { metadata }),
    }),
  });
};
