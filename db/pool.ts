import { createBigintTypeParser, createPool, SchemaValidationError } from "slonik";
import type { DatabasePool, DriverTypeParser, Interceptor, QueryResultRow } from "slonik";
import { createDriver } from "./driver.ts";

const asIs = (name: string): DriverTypeParser => ({ name, parse: (value) => value });

/** Parses every row with the schema its query was written with, so that drift fails loudly. */
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
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- slonik types a parsed row no better than this.
    return result.value as QueryResultRow;
  },
};

/** For the way there and back: whoever is there has answered by then. */
const ANSWER_MARGIN_MS = 5000;

/**
 * Opens a pool of connections. Instants are read as JavaScript dates, `int8` as bigint.
 * @param maximumConnections the most connections that this process may hold
 * @param statementTimeoutMs after it the database gives a statement up
 * @param answerTimeoutMs after it the database counts as gone, and the connection is thrown away
 */
export const openPool = (
  url: string,
  maximumConnections = 10,
  statementTimeoutMs = 60_000,
  answerTimeoutMs = statementTimeoutMs + ANSWER_MARGIN_MS,
): Promise<DatabasePool> =>
  createPool(url, {
    driverFactory: createDriver(answerTimeoutMs),
    interceptors: [parseRows],
    maximumPoolSize: maximumConnections,
    // For a new connection, which a machine that is busy rather than broken does make.
    connectionTimeout: 15_000,
    statementTimeout: statementTimeoutMs,
    idleInTransactionSessionTimeout: 60_000,
    // Whoever puts something into a session, such as an import's temporary table, takes it out again. The default,
    // DISCARD ALL, is a round trip after every query and forgets the prepared statements.
    resetConnection: () => Promise.resolve(),
    // Not the preset: it turns `numeric` into a float and `timestamptz` into milliseconds.
    typeParsers: [
      createBigintTypeParser(),
      asIs("numeric"),
      { name: "timestamptz", parse: (value) => new Date(value) },
    ],
  });
