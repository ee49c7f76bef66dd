import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { RefundWindow } from "./decideRefund.rules.ts";
import { createAccountQueue } from "../../db/batching/createAccountQueue.ts";
import type { AccountQueue } from "../../db/batching/createAccountQueue.ts";
import type { BillingContext } from "../billing/context.ts";
import { readRefundWindow } from "./readRefundWindow.ts";

/** How single refunds at the same time wait for each other. */
export type RefundQueue = {
  /** Runs the work of a refund in the database. */
  readonly run: AccountQueue;
  /** As `readRefundWindow`. */
  readonly readWindow: (owner: Owner) => Promise<RefundWindow>;
};

/** For programs that make one refund at a time. */
export const withoutQueue = (context: BillingContext): RefundQueue => ({
  run: (_accountId, work) => work(),
  readWindow: (owner) => readRefundWindow(context, owner),
});

/**
 * Creates the queue of a process's single refunds. Those of an account wait for each other without a connection, because they would
 * wait for the same rows. Those of an owner that need the processor share a call to it, which can take seconds.
 */
export const createRefundQueue = (context: BillingContext): RefundQueue => {
  const reading = new Map<string, ReturnType<RefundQueue["readWindow"]>>();
  const read: RefundQueue["readWindow"] = async (owner) => {
    try {
      return await readRefundWindow(context, owner);
    } finally {
      reading.delete(ownerKey(owner));
    }
  };
  return {
    run: createAccountQueue(),
    readWindow: (owner) => {
      const window = reading.get(ownerKey(owner)) ?? read(owner);
      reading.set(ownerKey(owner), window);
      return window;
    },
  };
};
