import type { AccountQueue } from "../batching/createAccountQueue.ts";
import type { Context } from "../context.ts";

export type StoreContext = Context & {
  /** In which the writes that lock a store's balance for several statements wait for each other. */
  readonly writeQueue: AccountQueue;
};
