import type { DriverClient } from "slonik";

/*
 * PostgreSQL keeps the plan of a prepared statement until it analyzes a table, which autovacuum does once a minute at most.
 * A plan that was made while a table was small reads all of it, also when it has a million rows by then.
 */

/** How often the sizes of the tables are read. */
const CHECK_INTERVAL_MS = 1000;

/**
 * A number that changes when a table has four times as many rows, up to 262,144. The counters lag by about a second; they are
 * read without a lock, as the size of a table's file is not.
 */
const READ_SIZES = `
  SELECT sum(least(floor(log(4, greatest(pg_stat_get_live_tuples(oid), 1))), 9))::text AS sizes
  FROM pg_class
  WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r'
`;

/**
 * Creates a wrapper of a pool's clients: when tables have grown, each plans its prepared statements anew. Behind a pooler, a
 * client does so for one of the pooler's connections only.
 */
export const createPlanRenewal = (): ((client: DriverClient) => DriverClient) => {
  let sizes: unknown = null;
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  const check = async (client: DriverClient): Promise<void> => {
    checkedAtMs = performance.now();
    const { rows } = await client.query(READ_SIZES);
    sizes = rows[0]?.["sizes"];
  };
  return (client) => {
    /** The sizes when this client's plans may have been made; null before its first prepared statement. */
    let plannedFor: unknown = null;
    return {
      ...client,
      query: async (text, values, options) => {
        if (options?.name !== undefined) {
          if (performance.now() - checkedAtMs > CHECK_INTERVAL_MS) {
            await check(client);
          }
          if (plannedFor !== null && plannedFor !== sizes) {
            await client.query("DISCARD PLANS");
          }
          plannedFor = sizes;
        }
        return client.query(text, values, options);
      },
    };
  };
};
