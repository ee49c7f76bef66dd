import type { CommonQueryMethods } from "slonik";
import type { RecordTable, RecordOwner } from "../records/ownedRecords.sql.ts";
import { lockBalances } from "./balances.sql.ts";
import { blankPage, blankSome, countPersonalRecords } from "./personalData.sql.ts";
import type { Blanked, Forgotten } from "./personalData.sql.ts";
import { hasOnlyName, isOfCustomer } from "./customers.sql.ts";
import type { CustomerIdentity, KnownCustomer } from "./customers.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { findCustomer } from "./exportCustomer.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";

/** Short transactions, because the store's writes wait for them. */
const BATCH_RECORDS = 500;

const add = (left: Forgotten, right: Forgotten): Forgotten => ({
  registrations: left.registrations + right.registrations,
  donations: left.donations + right.donations,
});

const isNothing = ({ registrations, donations }: Forgotten): boolean =>
  registrations + donations === 0;

/** Erases what a store's records say about a customer, in short transactions, and returns how many were changed. */
const forgetRecords = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  customer: KnownCustomer,
): Promise<Forgotten> => {
  const record = (transaction: CommonQueryMethods, forgotten: Forgotten): Promise<void> =>
    recordAction(transaction, actor, clock.now(), {
      action: "store.forget",
      accountId: storeId,
      details: { of: "customer", ...forgotten },
    });
  let total: Forgotten = { registrations: 0, donations: 0 };
  // Records with only a name come first: the others lead to the name if the call is interrupted and repeated.
  for (const selects of [hasOnlyName, isOfCustomer]) {
    let batch: Forgotten;
    do {
      batch = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        const blank = (table: RecordTable): Promise<number> =>
          blankSome(transaction, table, storeId, selects(table, storeId, customer), BATCH_RECORDS);
        const forgotten: Forgotten = {
          registrations: await blank("registration"),
          donations: await blank("donation"),
        };
        if (!isNothing(forgotten)) {
          await record(transaction, forgotten);
        }
        return forgotten;
      });
      total = add(total, batch);
    } while (!isNothing(batch));
  }
  if (isNothing(total)) {
    // The request itself is recorded, even if there was nothing to erase.
    await record(db, total);
  }
  return total;
};

/**
 * Erases what a store's records say about a customer: names, email addresses, customer and order ids, notes, the reasons of
 * refunds, and stored responses. Counts, prices and amounts stay. It may be interrupted and repeated.
 * @returns how many records were changed; with `isDryRun`, how many would be
 */
export const forgetCustomer = async (
  context: OperatorContext,
  storeId: string,
  given: CustomerIdentity,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<Forgotten> => {
  const customer = await findCustomer(context.db, storeId, given);
  return isDryRun
    ? countPersonalRecords(context.db, storeId, customer)
    : forgetRecords(context, storeId, customer);
};

/**
 * Erases what a store's records say about all its customers, as `forgetCustomer` does for one. It may be interrupted and
 * repeated.
 * @returns how many records were changed; with `isDryRun`, how many would be
 */
export const forgetAllCustomers = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<Forgotten> => {
  if (isDryRun) {
    return countPersonalRecords(db, storeId, null);
  }
  const blankAll = async (table: RecordTable, owner: RecordOwner): Promise<number> => {
    let total = 0;
    let after: ListPosition | null = null;
    do {
      const position: ListPosition | null = after;
      const page: Blanked = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, table, owner, position, BATCH_RECORDS);
      });
      total += page.blanked;
      after = page.last;
    } while (after !== null);
    return total;
  };
  // First, because a change may commit and the process end before the counts are known.
  await recordAction(db, actor, clock.now(), {
    action: "store.forget",
    accountId: storeId,
    details: { of: "all customers" },
  });
  let registrations = 0;
  let donations = 0;
  for (const mode of MODES) {
    for (const kind of KINDS) {
      registrations += await blankAll("registration", { accountId: storeId, mode, kind });
    }
    donations += await blankAll("donation", { accountId: storeId, mode });
  }
  return { registrations, donations };
};
