import { createBigintTypeParser, createPool, SchemaValidationError } from "slonik";
import type { DatabasePool, DriverTypeParser, Interceptor, QueryResultRow } from "slonik";
import { readDatabaseServers } from "../connections/databaseServers.ts";
import type { DatabaseUrlSource } from "../connections/databaseServers.ts";
import { createDriver } from "../connections/driver.ts";
import { Gate } from "../../runtime/gate.ts";
import { keepConnections } from "./wrapPool.ts";
import { asQueryTimeout } from "../databaseErrors.ts";
import { DEFAULT_LIMITS } from "../connections/inspectPooler.ts";
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

/** Converts the error of a statement that took too long. */
const reportTimeouts = (advice: string): Interceptor => ({
  name: "report-timeouts",
  queryExecutionError: (_context, _query, error) => {
    throw asQueryTimeout(error, advice);
  },
});

/**
 * How long a connection waits for its next use. Opening one takes longer than most requests. Firewalls in clouds forget
 * connections that are idle for four minutes.
 */
const IDLE_TIMEOUT_MS = 120_000;

type PoolOptions = {
  /** After it the database is considered lost, and the connection is destroyed. */
  readonly responseTimeoutMs?: number;
  /** To get a connection; a busy machine needs seconds to open one. */
  readonly connectTimeoutMs?: number;
  readonly interceptors?: readonly Interceptor[];
  /** How many connections clients leave to work on behalf of all; a third by default. */
  readonly reservedConnections?: number;
  /** How long work may wait for a connection; see `Gate` for the default. */
  readonly maximumWaitMs?: number;
  /**
   * What a client can change if a statement takes too long. With it the error is a DomainError query_timeout, otherwise
   * slonik's.
   */
  readonly timeoutAdvice?: string;
};

/**
 * Opens a pool of connections, for which clients wait at a gate. `timestamptz` is read as a Date, `int8` as a bigint.
 * @param statementTimeoutMs after it the database cancels a statement
 */
export const openPool = async (
  url: DatabaseUrlSource,
  maximumConnections = 10,
  statementTimeoutMs = DEFAULT_LIMITS.statementTimeoutMs,
  {
    responseTimeoutMs = statementTimeoutMs + RESPONSE_MARGIN_MS,
    connectTimeoutMs = 15_000,
    interceptors = [],
    reservedConnections = Math.min(Math.ceil(maximumConnections / 3), maximumConnections - 1),
    maximumWaitMs,
    timeoutAdvice,
  }: PoolOptions = {},
): Promise<DatabasePool> => {
  // The driver reads the servers' URLs itself, because the pool's own parser supports fewer parameters.
  const pool = await createPool("postgres://", {
    driverFactory: createDriver(readDatabaseServers(url), responseTimeoutMs),
    interceptors: [
      parseRows,
      ...interceptors,
      ...(timeoutAdvice === undefined ? [] : [reportTimeouts(timeoutAdvice)]),
    ],
    maximumPoolSize: maximumConnections,
    connectionTimeout: connectTimeoutMs,
    // Without a pause between them, further attempts would fail as well.
    connectionRetryLimit: 0,
    idleTimeout: IDLE_TIMEOUT_MS,
    statementTimeout: statementTimeoutMs,
    idleInTransactionSessionTimeout: DEFAULT_LIMITS.idleInTransactionTimeoutMs,
    // The default, DISCARD ALL, costs a round trip after every query and drops the prepared statements. So code that
    // changes a session must clean up itself.
    resetConnection: () => Promise.resolve(),
    // The preset would parse `numeric` as a float and `timestamptz` as milliseconds.
    typeParsers: [
      createBigintTypeParser(),
      asIs("numeric"),
      { name: "timestamptz", parse: (value) => new Date(value) },
    ],
  });
  const gate = new Gate({
    places: maximumConnections,
    reserved: reservedConnections,
    ...(maximumWaitMs === undefined ? {} : { maximumWaitMs }),
  });
  return sharePool(keepConnections(pool), gate);
};
