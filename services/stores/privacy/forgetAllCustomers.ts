import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import type { ListPosition } from "../../../db/listPositions.ts";
import { lockBalances } from "../../../db/stores/balances.ts";
import {
  blankDonationPage,
  blankRegistrationPage,
  countSelectedRecords,
} from "../../../db/stores/personalData.ts";
import { KINDS, MODES } from "../../../domain/accounts/accounts.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { Forgotten } from "./forgetCustomer.ts";

/** Short transactions, because the store's writes wait for them. */
const PAGE_RECORDS = 500;

type Page = { readonly blanked: number; readonly last: ListPosition | null };
type BlankPage = (
  transaction: DatabaseTransactionConnection,
  after: ListPosition | null,
) => Promise<Page>;

/**
 * Erases what a store's records say about all its customers, as `forgetCustomer` does for one. It may be interrupted and
 * repeated.
 * @returns how many records were changed; with `isDryRun`, how many would be
 */
export const forgetAllCustomers = async (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  storeId: string,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<Forgotten> => {
  if (isDryRun) {
    return countSelectedRecords(db, storeId, null);
  }
  const blankAll = async (blankPage: BlankPage): Promise<number> => {
    let total = 0;
    let after: ListPosition | null = null;
    do {
      const position: ListPosition | null = after;
      const page: Page = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, position);
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
      registrations += await blankAll((transaction, after) =>
        blankRegistrationPage(transaction, { accountId: storeId, mode, kind }, after, PAGE_RECORDS),
      );
    }
    donations += await blankAll((transaction, after) =>
      blankDonationPage(transaction, { accountId: storeId, mode }, after, PAGE_RECORDS),
    );
  }
  return { registrations, donations };
};
