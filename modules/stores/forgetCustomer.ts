import { lockBalances } from "./balances.sql.ts";
import {
  allRecords,
  blankPage,
  countPersonalRecords,
  recordsOfCustomer,
} from "./personalData.sql.ts";
import type { Blanked, Forgotten } from "./personalData.sql.ts";
import type { CustomerIdentity } from "./customers.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { findCustomer } from "./exportCustomer.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";

/**
 * Erases what a store's records say about a customer: names, email addresses, customer and order ids, notes, the reasons of
 * refunds, and stored responses. Counts, prices and amounts stay. It may be interrupted and repeated.
 * @param given null for all customers
 * @returns how many records were changed; with `isDryRun`, how many would be
 */
export const forgetCustomer = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  given: CustomerIdentity | null,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<Forgotten> => {
  const customer = given && (await findCustomer(db, storeId, given));
  if (isDryRun) {
    return countPersonalRecords(db, storeId, customer);
  }
  // First, because a change may commit and the process end before all are made.
  await recordAction(db, actor, clock.now(), {
    action: "store.forget",
    accountId: storeId,
    details: { of: customer === null ? "all customers" : "customer" },
  });
  const forgotten = { registration: 0, donation: 0 };
  const selections = customer === null ? allRecords(storeId) : recordsOfCustomer(storeId, customer);
  for (const selection of selections) {
    let after: ListPosition | null = null;
    do {
      const position: ListPosition | null = after;
      // Short transactions, because the store's writes wait for them.
      const page: Blanked = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, storeId, selection, position);
      });
      forgotten[selection.table] += page.blanked;
      after = page.last;
    } while (after !== null);
  }
  return { registrations: forgotten.registration, donations: forgotten.donation };
};
