import type { DatabasePool } from "slonik";

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
