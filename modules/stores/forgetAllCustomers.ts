import type { ListPosition } from "../records/listPositions.sql.ts";
import type { RecordOwners, RecordTable } from "../records/ownedRecords.sql.ts";
import { lockBalances } from "./balances.sql.ts";
import { blankPage, countSelectedRecords } from "./personalData.sql.ts";
import type { Blanked } from "./personalData.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Forgotten } from "./forgetCustomer.ts";

/** Short transactions, because the store's writes wait for them. */
const PAGE_RECORDS = 500;

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
  const blankAll = async <Table extends RecordTable>(
    table: Table,
    owner: RecordOwners[Table],
  ): Promise<number> => {
    let total = 0;
    let after: ListPosition | null = null;
    do {
      const position: ListPosition | null = after;
      const page: Blanked = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, table, owner, position, PAGE_RECORDS);
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
