import { ConnectionError, createPool, SchemaValidationError } from "slonik";
import type { DatabasePool, Interceptor, QueryResultRow } from "slonik";
import { createDriver } from "../connections/driver.ts";
import { Gate } from "../../runtime/gate.ts";
import {
  databaseUnavailable,
  findRefusalForNow,
  isContentError,
  isTimeout,
  queryTimeout,
} from "../databaseErrors.ts";
import { BatchRejectedError } from "../../runtime/errors.rules.ts";
import { currentClient } from "../../runtime/client.ts";

/** The methods that take a connection from the pool. All return promises. */
const TAKES_CONNECTION: readonly (keyof DatabasePool & string)[] = [
  "any",
  "anyFirst",
  "connect",
  "exists",
  "many",
  "manyFirst",
  "maybeOne",
  "maybeOneFirst",
  "one",
  "oneFirst",
  "query",
  "transaction",
];

type PoolMethod = (...parameters: readonly unknown[]) => Promise<unknown>;

/** Returns the pool with other methods: `wrap` replaces each that takes a connection. */
export const wrapPool = (
  pool: DatabasePool,
  wrap: (method: PoolMethod, name: string) => PoolMethod,
  others: Partial<DatabasePool> = {},
): DatabasePool => {
  const replaced = new Map<PropertyKey, unknown>(Object.entries(others));
  for (const name of TAKES_CONNECTION) {
    const method: unknown = Reflect.get(pool, name);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the list has such methods only.
    replaced.set(name, wrap(method as PoolMethod, name));
  }
  return new Proxy(pool, {
    get: (target, name) => replaced.get(name) ?? Reflect.get(target, name),
  });
};

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

/** After it the database cancels a statement, or ends a transaction in which nothing happens. */
const TIMEOUT_MS = 60_000;

/** For the network round trip. */
const RESPONSE_MARGIN_MS = 5000;

/**
 * How long a connection waits for its next use. Opening one takes longer than most requests. Firewalls in clouds forget
 * connections that are idle for four minutes.
 */
const IDLE_TIMEOUT_MS = 120_000;

/**
 * Returns a method of the pool that keeps its connection after a refusal: a constraint that a statement violates, or a
 * DomainError that rolls a transaction back. slonik closes the connection after every error. Opening one takes longer than
 * most requests, and nothing is prepared on it, so a client whose requests are refused would slow all others down.
 */
const keepingConnection =
  (pool: DatabasePool, name: string): PoolMethod =>
  async (...parameters) => {
    const outcome = await pool.connect(async (connection) => {
      try {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a connection has these methods of the pool.
        const own = Reflect.get(connection, name) as PoolMethod;
        return { result: await Reflect.apply(own, connection, parameters) };
      } catch (error) {
        // If slonik could not roll back, this is another error.
        if (isContentError(error) || error instanceof BatchRejectedError) {
          return { refusal: error };
        }
        throw error;
      }
    });
    if ("refusal" in outcome) {
      throw outcome.refusal;
    }
    return outcome.result;
  };

const convertingErrors =
  (method: PoolMethod, isForReads: boolean): PoolMethod =>
  async (...parameters) => {
    try {
      return await method(...parameters);
    } catch (error) {
      const cause = error instanceof ConnectionError ? error : findRefusalForNow(error);
      if (cause !== null) {
        throw databaseUnavailable(cause);
      }
      throw isForReads && isTimeout(error) ? queryTimeout(error) : error;
    }
  };

export type PoolOptions = {
  /** After it the database is considered lost, and the connection is destroyed. */
  readonly responseTimeoutMs?: number;
  /** To get a connection; a busy machine needs seconds to open one. */
  readonly connectTimeoutMs?: number;
  readonly interceptors?: readonly Interceptor[];
  /**
   * Whether clients only read here. Then a statement that takes too long is a DomainError query_timeout, because they can
   * narrow what they read. Of another pool, they leave a third of the connections to work on behalf of all.
   */
  readonly isForReads?: boolean;
};

/**
 * Opens a pool of connections behind a gate, which has as many places. So nothing waits inside the pool, where slonik would
 * forget it: if the connections that are being opened all fail, nothing wakes what waits for one. Out here each piece of work
 * gets its own attempt, and its own error. The first use of the pool connects.
 * @param statementTimeoutMs after it the database cancels a statement
 * @returns a pool whose methods throw UnavailableError if no connection can be opened, or if the server accepts no writes or
 *   lacks disk, memory or connections; then nothing was done
 */
export const openPool = async (
  url: string,
  maximumConnections = 10,
  statementTimeoutMs = TIMEOUT_MS,
  {
    responseTimeoutMs = statementTimeoutMs + RESPONSE_MARGIN_MS,
    connectTimeoutMs = 15_000,
    interceptors = [],
    isForReads = false,
  }: PoolOptions = {},
): Promise<DatabasePool> => {
  // The driver reads the URL itself, because the pool's own parser supports fewer parameters.
  const pool = await createPool("postgres://", {
    driverFactory: createDriver(url, {
      connectionTimeoutMillis: connectTimeoutMs,
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: TIMEOUT_MS,
      query_timeout: responseTimeoutMs,
    }),
    interceptors: [parseRows, ...interceptors],
    maximumPoolSize: maximumConnections,
    // Without a pause between them, further attempts would fail as well.
    connectionRetryLimit: 0,
    idleTimeout: IDLE_TIMEOUT_MS,
    // The default, DISCARD ALL, costs a round trip after every query and drops the prepared statements. So code that
    // changes a session must clean up itself.
    resetConnection: () => Promise.resolve(),
  });
  const gate = new Gate({
    places: maximumConnections,
    reserved: isForReads ? 0 : Math.min(Math.ceil(maximumConnections / 3), maximumConnections - 1),
  });
  return wrapPool(
    pool,
    (method, name) => {
      const attempt = convertingErrors(
        // What the caller does with the connection is not known, so after an error its session may be in any state.
        name === "connect" ? method : keepingConnection(pool, name),
        isForReads,
      );
      return (...parameters) => gate.run(currentClient(), () => attempt(...parameters));
    },
    {
      state: () => {
        const state = pool.state();
        return { ...state, waitingClients: state.waitingClients + gate.waitingCount() };
      },
    },
  );
};
