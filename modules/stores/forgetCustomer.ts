import type { RecordTable, RecordOwner } from "../records/ownedRecords.sql.ts";
import { lockBalances } from "./balances.sql.ts";
import { blankSelected, countSelectedRecords, blankPage } from "./personalData.sql.ts";
import type { Blanked } from "./personalData.sql.ts";
import type { RecordSelection } from "./customers.sql.ts";
import type { CustomerIdentity, KnownCustomer } from "./customers.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { findCustomer } from "./exportCustomer.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";

/** Short transactions, because the store's writes wait for them. */
const BATCH_RECORDS = 500;

/** An address that is shared, such as the shop's own, may lead to the names of all its customers. */
const BATCH_NAMES = 500;

export type Forgotten = { readonly registrations: number; readonly donations: number };

const NOTHING: Forgotten = { registrations: 0, donations: 0 };

const add = (left: Forgotten, right: Forgotten): Forgotten => ({
  registrations: left.registrations + right.registrations,
  donations: left.donations + right.donations,
});

/** Records with only a name come first: the others lead to the name if the call is interrupted and repeated. */
const selectionsOf = ({ identity, names }: KnownCustomer): readonly RecordSelection[] => {
  const selections: RecordSelection[] = [];
  for (let start = 0; start < names.length; start += BATCH_NAMES) {
    selections.push({ identity, names: names.slice(start, start + BATCH_NAMES) });
  }
  return [...selections, identity];
};

const forgetBatch = (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  selection: RecordSelection,
) =>
  db.transaction(async (transaction) => {
    await lockBalances(transaction, [storeId]);
    const blank = (table: RecordTable): Promise<number> =>
      blankSelected(transaction, table, storeId, selection, BATCH_RECORDS);
    const forgotten: Forgotten = {
      registrations: await blank("registration"),
      donations: await blank("donation"),
    };
    if (forgotten.registrations + forgotten.donations > 0) {
      await recordAction(transaction, actor, clock.now(), {
        action: "store.forget",
        accountId: storeId,
        details: { of: "customer", ...forgotten },
      });
    }
    return forgotten;
  });

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
  const { db, clock, actor } = context;
  const selections = selectionsOf(await findCustomer(db, storeId, given));
  let total = NOTHING;
  if (isDryRun) {
    for (const selection of selections) {
      total = add(total, await countSelectedRecords(db, storeId, selection));
    }
    return total;
  }
  for (const selection of selections) {
    let batch: Forgotten;
    do {
      batch = await forgetBatch(context, storeId, selection);
      total = add(total, batch);
    } while (batch.registrations + batch.donations > 0);
  }
  if (total.registrations + total.donations === 0) {
    // The request itself is recorded, even if there was nothing to erase.
    await recordAction(db, actor, clock.now(), {
      action: "store.forget",
      accountId: storeId,
      details: { of: "customer", ...total },
    });
  }
  return total;
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
    return countSelectedRecords(db, storeId, null);
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
