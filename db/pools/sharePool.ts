import { ConnectionError } from "slonik";
import type { DatabasePool } from "slonik";
import { currentClient } from "../../runtime/client.ts";
import type { Gate } from "../../runtime/gate.ts";
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
 * Returns the pool behind a gate, which has at most as many places as the pool has connections. So nothing waits inside
 * the pool, where slonik would forget it: if the connections that are being opened all fail, nothing wakes what waits for
 * one. Out here each piece of work gets its own attempt, and its own error.
 * @returns a pool whose methods throw UnavailableError if no connection can be opened, or if the server accepts no writes or
 *   lacks disk, memory or connections; then nothing was done
 */
export const sharePool = (pool: DatabasePool, gate: Gate): DatabasePool =>
  wrapPool(
    pool,
    (method) => {
      const attempt = withUnavailable(method);
      return (...parameters) => gate.run(currentClient(), () => attempt(...parameters));
    },
    {
      state: () => {
        const state = pool.state();
        return { ...state, waitingClients: state.waitingClients + gate.waitingCount() };
      },
    },
  );
