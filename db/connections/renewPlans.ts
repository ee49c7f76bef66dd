import type { DriverClient } from "slonik";

/*
 * PostgreSQL keeps the plan of a prepared statement until it analyzes a table, which autovacuum does once a minute at most.
 * A plan that was made while a table was small reads all of it, also when it has a million rows by then.
 */

/** How often the sizes of the tables are read. */
const CHECK_INTERVAL_MS = 1000;

/**
 * The magnitudes of the tables, which grow by one with four times as many rows, up to 262,144 rows. PostgreSQL's counters lag
 * by a second under load. They are read without a lock; the size of a table's file takes one.
 */
const READ_MAGNITUDES = `
  SELECT oid::text AS id, least(floor(log(4, rows)), 9)::integer AS magnitude
  FROM (
    SELECT oid, pg_stat_get_live_tuples(oid) AS rows
    FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind = 'r'
  ) AS counted
  WHERE rows >= 4
`;

/**
 * Creates a wrapper of a pool's clients: when a table is larger than it ever was, each plans its prepared statements anew.
 * Behind a pooler, a client does so for one of the pooler's connections only.
 */
export const createPlanRenewal = (): ((client: DriverClient) => DriverClient) => {
  /** The largest that each table had. What is deleted and recorded again changes nothing. */
  const magnitudes = new Map<unknown, number>();
  let growths = 0;
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  const check = async (client: DriverClient): Promise<void> => {
    checkedAtMs = performance.now();
    const { rows } = await client.query(READ_MAGNITUDES);
    const grown = rows.filter(({ id, magnitude }) => Number(magnitude) > (magnitudes.get(id) ?? 0));
    for (const { id, magnitude } of grown) {
      magnitudes.set(id, Number(magnitude));
    }
    if (grown.length > 0) {
      growths += 1;
    }
  };
  return (client) => {
    /** The growths before this client's plans were made; null before its first prepared statement. */
    let plannedAfter: number | null = null;
    return {
      ...client,
      query: async (text, values, options) => {
        if (options?.name !== undefined) {
          if (performance.now() - checkedAtMs > CHECK_INTERVAL_MS) {
            await check(client);
          }
          if (plannedAfter !== null && plannedAfter !== growths) {
            await client.query("DISCARD PLANS");
          }
          plannedAfter = growths;
        }
        return client.query(text, values, options);
      },
    };
  };
};
