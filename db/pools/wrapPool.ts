import type { DatabasePool } from "slonik";
import { BatchRejectedError } from "../../runtime/errors.rules.ts";
import { isContentError } from "../databaseErrors.ts";

/** The methods that take a connection from the pool. */
const TAKES_CONNECTION: ReadonlySet<string> = new Set<keyof DatabasePool & string>([
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

/** A method that takes a connection. */
export type PoolMethod = (...parameters: readonly unknown[]) => Promise<unknown>;

/**
 * Returns the pool with other methods.
 * @param wrap returns what replaces a method that takes a connection, of which it gets the name as well
 * @param others replace further methods
 */
export const wrapPool = (
  pool: DatabasePool,
  wrap: (method: PoolMethod, name: string) => PoolMethod,
  others: Partial<DatabasePool> = {},
): DatabasePool => {
  const replaced = new Map<PropertyKey, unknown>(Object.entries(others));
  for (const name of TAKES_CONNECTION) {
    const method: unknown = Reflect.get(pool, name);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all methods of this list return promises.
    replaced.set(name, wrap(method as PoolMethod, name));
  }
  return new Proxy(pool, {
    get: (target, name) => replaced.get(name) ?? Reflect.get(target, name),
  });
};

/** What the caller does with such a connection is not known, so after an error its session may be in any state. */
const LENDS_CONNECTION: ReadonlySet<string> = new Set(["connect", "stream"]);

/** Returns whether an error is about what was asked for, so that its connection is as good as before. */
const isRefusal = (error: unknown): boolean =>
  isContentError(error) || error instanceof BatchRejectedError;

/**
 * Returns the pool with methods that keep their connection after a refusal: a constraint that a statement violates, or a
 * DomainError that rolls a transaction back. slonik closes the connection after every error. Opening one takes longer than
 * most requests, and nothing is prepared on it, so a client whose requests are refused would slow all others down.
 */
export const keepConnections = (pool: DatabasePool): DatabasePool =>
  wrapPool(pool, (method, name) =>
    LENDS_CONNECTION.has(name)
      ? method
      : async (...parameters) => {
          const outcome = await pool.connect(async (connection) => {
            try {
              // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a connection has these methods of the pool.
              const own = Reflect.get(connection, name) as PoolMethod;
              return { result: await Reflect.apply(own, connection, parameters) };
            } catch (error) {
              // If slonik could not roll back, this is another error.
              if (isRefusal(error)) {
                return { refusal: error };
              }
              throw error;
            }
          });
          if ("refusal" in outcome) {
            throw outcome.refusal;
          }
          return outcome.result;
        },
  );
