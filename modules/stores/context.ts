import type { AccountQueue } from "../../db/batching/createAccountQueue.ts";
import type { Context } from "../../runtime/context.ts";

export type StoreContext = Context & {
  /** In which the writes that lock a store's balance for several statements wait for each other. */
  readonly writeQueue: AccountQueue;
};
