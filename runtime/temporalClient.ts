import { Client, Connection } from "@temporalio/client";
import { loadClientConnectConfig } from "@temporalio/envconfig";
import type { ClientConnectConfig } from "@temporalio/envconfig";
import { findProxy } from "./outgoing.ts";

/**
 * Reads how to connect to Temporal from Temporal's own environment configuration: `TEMPORAL_ADDRESS` (localhost:7233 by
 * default), `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS…` and its configuration file.
 */
export const readTemporalConfig = (): ClientConnectConfig & { readonly namespace: string } => {
  const { connectionOptions, namespace = "default" } = loadClientConnectConfig();
  return { connectionOptions, namespace };
};

/** Returns the proxy to Temporal, or null. gRPC reads the variable of HTTP as well if that of HTTPS is not set. */
export const findTemporalProxy = (address = "localhost:7233"): URL | null =>
  findProxy(`https://${address}`) ?? findProxy(`http://${address}`);

/**
 * Creates a client that connects on the first call, so that programs can start while Temporal is down. Make every call
 * with `withTemporalDeadline`: without a deadline it takes 17 s to fail.
 * @param override replaces the configured server
 */
export const openTemporalClient = (
  override: { readonly address?: string; readonly namespace?: string | undefined } = {},
): Client => {
  const { connectionOptions, namespace } = readTemporalConfig();
  const { address = connectionOptions.address } = override;
  return new Client({
    namespace: override.namespace ?? namespace,
    connection: Connection.lazy({
      ...connectionOptions,
      ...(address === undefined ? {} : { address }),
    }),
  });
};

/** Calls Temporal with a timeout. The abort signal is needed because the client retries a call after its deadline. */
export const withTemporalDeadline = <Result>(
  temporal: Client,
  timeoutMs: number,
  work: () => Promise<Result>,
): Promise<Result> =>
  temporal.withAbortSignal(AbortSignal.timeout(timeoutMs), () =>
    temporal.withDeadline(Date.now() + timeoutMs, work),
  );
