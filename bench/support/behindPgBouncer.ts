import { runPgBouncer } from "../../test/support/startPgBouncer.ts";
import type { Services } from "./startServices.ts";

/** Connections of the pooler to PostgreSQL, of each database. */
const POOL_SIZE = 20;

/**
 * Starts PgBouncer in transaction mode.
 * @returns services whose programs reach PostgreSQL through it, and a function that stops it
 */
export const behindPgBouncer = async (
  services: Services,
): Promise<{ readonly pooled: Services; readonly stopPooler: () => Promise<void> }> => {
  const pooler = await runPgBouncer(services.databaseUrl, { default_pool_size: POOL_SIZE });
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
    stopPooler: pooler.stop,
  };
};
