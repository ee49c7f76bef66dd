import type { DatabasePool } from "slonik";
import {
  insertPlantingOrder,
  listAccountsWithUnorderedTrees,
} from "../../../db/planting/orders.ts";
import type { AccountMode } from "../../../domain/accounts/accounts.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Planting } from "../../../providers/planting/createPlanting.ts";
import { newId } from "../../newId.ts";

/** Makes a transaction of about a second. A million registrations become a hundred orders. */
const REGISTRATIONS_PER_ORDER = 10_000;
const ACCOUNTS_PER_PAGE = 200;

/**
 * Creates planting orders of all accounts' registered trees that are in no order and not refunded. No tree is ever in two
 * orders; the next call continues after a crash.
 * @returns the number of orders
 */
export const createPlantingOrders = async (
  {
    db,
    clock,
    planting,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly planting: Planting },
  signal: AbortSignal,
  registrationsPerOrder = REGISTRATIONS_PER_ORDER,
): Promise<number> => {
  let orders = 0;
  let after: AccountMode | null = null;
  for (;;) {
    const accounts = await listAccountsWithUnorderedTrees(db, after, ACCOUNTS_PER_PAGE);
    for (const { accountId, mode, name } of accounts) {
      const partner = planting.partnerFor(mode);
      let isMore = true;
      while (isMore) {
        signal.throwIfAborted();
        const created = await db.transaction((transaction) =>
          insertPlantingOrder(
            transaction,
            {
              publicId: `po_${newId().replaceAll("-", "")}`,
              accountId,
              mode,
              partner: partner.kind,
              partnerName: partner.name,
              buyerName: name,
              timeline: partner.timeline,
              createdAt: clock.now(),
            },
            registrationsPerOrder,
          ),
        );
        orders += created ? 1 : 0;
        isMore = created?.registrations === registrationsPerOrder;
      }
    }
    after = accounts.at(-1) ?? null;
    if (accounts.length < ACCOUNTS_PER_PAGE) {
      return orders;
    }
  }
};
