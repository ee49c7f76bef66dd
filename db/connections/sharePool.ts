import { ConnectionError } from "slonik";
import type { DatabasePool } from "slonik";
import { readClaim } from "./connectionShares.ts";
import type { ConnectionShares } from "./connectionShares.ts";
import { noConnectionError } from "./noConnectionError.ts";

/** The methods that take a connection from the pool. */
const TAKES_CONNECTION: ReadonlySet<PropertyKey> = new Set<keyof DatabasePool>([
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
  "stream",
  "transaction",
]);

type Method = (...parameters: readonly unknown[]) => Promise<unknown>;

const withUnavailable =
  (method: Method): Method =>
  async (...parameters) => {
    try {
      return await method(...parameters);
    } catch (error) {
      throw error instanceof ConnectionError ? noConnectionError(error) : error;
    }
  };

/**
 * Returns the pool with shares for accounts: work that runs for an account waits until it may have a connection.
 * @param shares decide who may have one
 * @returns a pool whose methods throw UnavailableError if no connection can be opened; then nothing was executed
 */
export const sharePool = (pool: DatabasePool, shares: ConnectionShares): DatabasePool => {
  const share =
    (method: Method): Method =>
    (...parameters) => {
      const claim = readClaim();
      return claim === undefined
        ? method(...parameters)
        : shares.run(claim, () => method(...parameters));
    };
  const replaced = new Map<PropertyKey, unknown>();
  for (const name of TAKES_CONNECTION) {
    const method: unknown = Reflect.get(pool, name);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all methods of this list return promises.
    replaced.set(name, share(withUnavailable(method as Method)));
  }
  replaced.set("state", () => {
    const state = pool.state();
    return { ...state, waitingClients: state.waitingClients + shares.waitingCount() };
  });
  return new Proxy(pool, {
    get: (target, name) => replaced.get(name) ?? Reflect.get(target, name),
  });
};
