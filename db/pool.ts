import { createBigintTypeParser, createPool, SchemaValidationError } from "slonik";
import type { DatabasePool, DriverTypeParser, Interceptor, QueryResultRow } from "slonik";
import { createDriver } from "./driver.ts";
import { createConnectionShares, sharesOfMixedPool } from "./connectionShares.ts";
import type { Shares } from "./connectionShares.ts";
import { sharePool } from "./sharePool.ts";

const asIs = (name: string): DriverTypeParser => ({ name, parse: (value) => value });

/** Validates every row with the schema of its query, so that a mismatch is an error. */
const parseRows: Interceptor = {
  name: "parse-rows",
  transformRow: ({ resultParser }, query, row) => {
    if (!resultParser) {
      return row;
    }
    const result = resultParser["~standard"].validate(row);
    if (result instanceof Promise) {
      throw new TypeError("Row schemas must be synchronous.");
    }
    if (result.issues) {
      throw new SchemaValidationError(query, row, result.issues);
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- slonik has no better type for a parsed row.
    return result.value as QueryResultRow;
  },
};

/** For the network round trip. */
const RESPONSE_MARGIN_MS = 5000;

/**
 * Opens a pool of connections, of which accounts have shares. `timestamptz` is read as a Date, `int8` as a bigint.
 * @param statementTimeoutMs after it the database cancels a statement
 * @param responseTimeoutMs after it the database is considered lost, and the connection is destroyed
 * @param shares what accounts may use of the connections
 */
export const openPool = async (
  url: string,
  maximumConnections = 10,
  statementTimeoutMs = 60_000,
  {
    responseTimeoutMs = statementTimeoutMs + RESPONSE_MARGIN_MS,
    shares = sharesOfMixedPool(maximumConnections),
  }: { readonly responseTimeoutMs?: number; readonly shares?: Shares } = {},
): Promise<DatabasePool> => {
  const pool = await createPool(url, {
    driverFactory: createDriver(responseTimeoutMs),
    interceptors: [parseRows],
    maximumPoolSize: maximumConnections,
    // To open a connection; a busy machine needs seconds.
    connectionTimeout: 15_000,
    // Without a pause between them, further attempts would fail as well.
    connectionRetryLimit: 0,
    statementTimeout: statementTimeoutMs,
    idleInTransactionSessionTimeout: 60_000,
    // The default, DISCARD ALL, costs a round trip after every query and drops the prepared statements. So code that
    // changes a session, as an import does with its temporary table, must clean up itself.
    resetConnection: () => Promise.resolve(),
    // The preset would parse `numeric` as a float and `timestamptz` as milliseconds.
    typeParsers: [
      createBigintTypeParser(),
      asIs("numeric"),
      { name: "timestamptz", parse: (value) => new Date(value) },
    ],
  });
  return sharePool(pool, createConnectionShares(shares));
};
