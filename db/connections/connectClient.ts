import { Client } from "pg";
import type { ClientConfig } from "pg";
import { connectTimeoutOf, readDatabaseServers, requireWritable } from "./databaseServers.ts";
import type { Server } from "./databaseServers.ts";

type Connected = { readonly client: Client; readonly server: Server };

/** @throws ReadOnlyServerError */
export const requireWritableClient = async (client: {
  readonly query: (text: string) => Promise<{ readonly rows: readonly Record<string, unknown>[] }>;
}): Promise<void> => {
  const { rows } = await client.query("SHOW transaction_read_only");
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
    const client = new Client({
      ...server.config,
      ...options,
      connectionTimeoutMillis: connectTimeoutOf(servers, connectionTimeoutMillis),
    });
    await client.connect();
    try {
      if (servers.mustAcceptWrites) {
        await requireWritableClient(client);
      }
    } catch (error) {
      await client.end();
      throw error;
    }
    return { client, server };
  });
};
