import type { DriverClient } from "slonik";

/*
 * PostgreSQL keeps the plan of a prepared statement until the table is analyzed, which autovacuum does once a minute at most.
 * A plan that was made while there were few registrations reads all of them, also when there are a million by then.
 */

/** The end of the names of statements that are not prepared while there are few registrations. */
const SUFFIX = "_once_grown";

/** From this size of the table on, reading an index seems cheaper. */
const GROWN_BYTES = 1024 * 1024;

/** How often the size is read again. */
const CHECK_INTERVAL_MS = 1000;

/** Returns a name for `sql.prepared`, of a statement that could be planned to read all registrations if there are few. */
export const onceGrown = (name: string): string => name + SUFFIX;

/** Creates a wrapper of a pool's clients, which executes such statements without their name until there are more. */
export const createPreparedOnceGrown = (): ((client: DriverClient) => DriverClient) => {
  let isGrown = false;
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  const check = async (client: DriverClient): Promise<void> => {
    checkedAtMs = performance.now();
    const { rows } = await client.query(
      `SELECT pg_relation_size(to_regclass('registration')) >= ${GROWN_BYTES} AS grown`,
    );
    isGrown = rows[0]?.["grown"] === true;
  };
  return (client) => ({
    ...client,
    query: async (text, values, options) => {
      if (isGrown || options?.name?.endsWith(SUFFIX) !== true) {
        return client.query(text, values, options);
      }
      if (performance.now() - checkedAtMs > CHECK_INTERVAL_MS) {
        await check(client);
      }
      return client.query(text, values, isGrown ? options : undefined);
    },
  });
};
