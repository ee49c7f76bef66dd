import { lockBalances } from "./stores.sql.ts";
import { blankPage, recordsOf } from "./personalData.sql.ts";
import type { Blanked } from "./personalData.sql.ts";
import type { CustomerIdentity } from "./customers.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { findCustomer } from "./exportCustomer.ts";

/**
 * Erases what a store's records say about a customer: names, email addresses, customer and order ids, notes, the reasons of
 * refunds, and stored responses. Counts, prices and amounts stay. It may be interrupted and repeated.
 * @param given null for all customers
 * @returns how many records were changed
 */
export const forgetCustomer = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  given: CustomerIdentity | null,
): Promise<{ readonly registrations: number; readonly donations: number }> => {
  const customer = given && (await findCustomer(db, storeId, given));
  // First, because a change may commit and the process end before all are made.
  await recordAction(db, actor, clock.now(), {
    action: "store.forget",
    accountId: storeId,
    details: { of: customer === null ? "all customers" : "customer" },
  });
  const forgotten = { registration: 0, donation: 0 };
  for (const selection of recordsOf(storeId, customer)) {
    let after: string | null = null;
    do {
      const start: string | null = after;
      // Short transactions, because the store's writes wait for them.
      const { blanked, last }: Blanked = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, storeId, selection, start);
      });
      forgotten[selection.table] += blanked;
      after = last;
    } while (after !== null);
  }
  return { registrations: forgotten.registration, donations: forgotten.donation };
};
