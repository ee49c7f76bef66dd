import { Client } from "pg";
import { readPgBouncerVersion, runPgBouncer } from "../../test/support/startPgBouncer.ts";
import type { Services } from "./startServices.ts";

/** Connections of the pooler to PostgreSQL, of each database. */
const POOL_SIZE = 20;

/** As docs/operations.md advises. */
const setTimeouts = async (databaseUrl: string): Promise<void> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("ALTER ROLE CURRENT_USER SET statement_timeout = '60s'");
    await client.query("ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '60s'");
  } finally {
    await client.end();
  }
};

/**
 * Starts PgBouncer in transaction mode, with prepared statements if this release can keep them.
 * @returns services whose programs reach PostgreSQL through it, the release and a function that stops it
 */
export const behindPgBouncer = async (
  services: Services,
): Promise<{
  readonly pooled: Services;
  readonly version: string;
  readonly stopPooler: () => Promise<void>;
}> => {
  const { version, canPrepare } = readPgBouncerVersion();
  await setTimeouts(services.databaseUrl);
  const pooler = await runPgBouncer(services.databaseUrl, {
    default_pool_size: POOL_SIZE,
    ...(canPrepare ? { max_prepared_statements: 200 } : {}),
  });
  const { host } = new URL(pooler.url);
  return {
    pooled: {
      ...services,
      startProgram: (module, settings) => {
        const url = new URL(settings["DATABASE_URL"] ?? services.databaseUrl);
        url.host = host;
        return services.startProgram(module, { ...settings, DATABASE_URL: url.href });
      },
    },
    version,
    stopPooler: pooler.stop,
  };
};
