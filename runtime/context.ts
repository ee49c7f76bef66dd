import type { CommonQueryMethods, DatabasePool } from "slonik";
import type { Clock } from "./clock.ts";

/**
 * What a process creates once and hands to its use cases. Each capability adds what only it needs in a `context.ts` of its
 * own; a use case names the narrowest of these types.
 */
export type Context = {
  readonly db: DatabasePool;
  readonly clock: Clock;
};

/** A context in a transaction of the caller. */
export type InTransaction<Outer extends Context> = Omit<Outer, "db"> & {
  readonly db: CommonQueryMethods;
};
