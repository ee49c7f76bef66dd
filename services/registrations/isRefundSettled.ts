import type { CommonQueryMethods } from "slonik";
import { areRefundsSettled } from "../../db/billing/usageFacts.ts";

/** Returns whether the usage of all refunds of a registration is settled with the processor. */
export const isRefundSettled = (
  { db }: { readonly db: CommonQueryMethods },
  registrationId: string,
): Promise<boolean> => areRefundsSettled(db, registrationId);
