import type { CommonQueryMethods } from "slonik";
import { areRefundsSettled } from "../../db/billing/usageFacts.ts";

/** Whether all that a registration's refunds have taken back so far is settled with the processor. */
export const isRefundSettled = (
  { db }: { readonly db: CommonQueryMethods },
  registrationId: string,
): Promise<boolean> => areRefundsSettled(db, registrationId);
