import { ConnectionError } from "slonik";
import type { DatabasePool } from "slonik";
import { readClaim } from "./connectionShares.ts";
import type { ConnectionShares } from "./connectionShares.ts";
import { noConnectionError } from "./noConnectionError.ts";
import { wrapPool } from "./wrapPool.ts";
import type { PoolMethod } from "./wrapPool.ts";

const withUnavailable =
  (method: PoolMethod): PoolMethod =>
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
    (method: PoolMethod): PoolMethod =>
    (...parameters) => {
      const claim = readClaim();
      return claim === undefined
        ? method(...parameters)
        : shares.run(claim, () => method(...parameters));
    };
  return wrapPool(pool, (method) => share(withUnavailable(method)), {
    state: () => {
      const state = pool.state();
      return { ...state, waitingClients: state.waitingClients + shares.waitingCount() };
    },
  });
};
