import type { CommonQueryMethods } from "slonik";
import { findRefundProgress } from "../billing/refundUsage.sql.ts";

/** `failed`: an operator must retry or waive its usage. */
export type RefundState = "pending" | "settled" | "failed";

/** Returns how far the refunds of a registration are with the processor, all of them together. */
export const checkRefund = async (
  { db }: { readonly db: CommonQueryMethods },
  registrationId: string,
): Promise<RefundState> => {
  const progress = await findRefundProgress(db, registrationId);
  if (progress?.pending) {
    return "pending";
  }
  return progress?.failed ? "failed" : "settled";
};
