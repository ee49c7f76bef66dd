import { ConnectionError } from "slonik";
import type { DatabasePool } from "slonik";
import { readClaim } from "./connectionShares.ts";
import type { ConnectionShares } from "./connectionShares.ts";
import { createConnectionQueue } from "./createConnectionQueue.ts";
import { databaseUnavailable, findRefusalForNow } from "../databaseErrors.ts";
import { wrapPool } from "./wrapPool.ts";
import type { PoolMethod } from "./wrapPool.ts";

const withUnavailable =
  (method: PoolMethod): PoolMethod =>
  async (...parameters) => {
    try {
      return await method(...parameters);
    } catch (error) {
      const cause = error instanceof ConnectionError ? error : findRefusalForNow(error);
      throw cause === null ? error : databaseUnavailable(cause);
    }
  };

/**
 * Returns the pool with shares for accounts: work that runs for an account waits until it may have a connection.
 * @param maximumConnections those of the pool; more work waits, also that of no account
 * @param shares decide which account may have one
 * @returns a pool whose methods throw UnavailableError if no connection can be opened, or if the server accepts no writes or
 *   lacks disk, memory or connections; then nothing was done
 */
export const sharePool = (
  pool: DatabasePool,
  maximumConnections: number,
  shares: ConnectionShares,
): DatabasePool => {
  const queue = createConnectionQueue(maximumConnections);
  const enqueue =
    (method: PoolMethod): PoolMethod =>
    (...parameters) =>
      queue.run(() => method(...parameters));
  const share =
    (method: PoolMethod): PoolMethod =>
    (...parameters) => {
      const claim = readClaim();
      return claim === undefined
        ? method(...parameters)
        : shares.run(claim, () => method(...parameters));
    };
  return wrapPool(pool, (method) => share(enqueue(withUnavailable(method))), {
    state: () => {
      const state = pool.state();
      const waitingClients = state.waitingClients + queue.waitingCount() + shares.waitingCount();
      return { ...state, waitingClients };
    },
  });
};
