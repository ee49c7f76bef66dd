import type { DatabasePool } from "slonik";
import {
  insertPlantingOrder,
  listAccountsWithUnorderedTrees,
} from "../../../db/planting/orders.ts";
import type { AccountMode } from "../../../domain/accounts/accounts.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Planting } from "../../../providers/planting/createPlanting.ts";
import { newId } from "../../newId.ts";

/** Makes a transaction of a third of a second. A million registrations become a hundred orders. */
const REGISTRATIONS_PER_ORDER = 10_000;
const ACCOUNTS_PER_PAGE = 200;

/** The workflows of the created orders start after a run. What remains then is for the next run. */
const MAXIMUM_RUN_MS = 30 * 60 * 1000;

/**
 * Creates planting orders of all accounts' registered trees that are in no order and not refunded. Accounts with more
 * trees than an order may have take turns. No tree is ever in two orders; the next call continues after a crash, and after
 * half an hour, once each account had its turn.
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
  const createOrder = ({ accountId, mode, name }: AccountMode & { readonly name: string }) => {
    const partner = planting.partnerFor(mode);
    return db.transaction((transaction) =>
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
  };
  const endMs = clock.now().getTime() + MAXIMUM_RUN_MS;
  let orders = 0;
  let after: AccountMode | null = null;
  let isMore = false;
  for (;;) {
    const accounts = await listAccountsWithUnorderedTrees(db, after, ACCOUNTS_PER_PAGE);
    for (const account of accounts) {
      signal.throwIfAborted();
      const created = await createOrder(account);
      orders += created ? 1 : 0;
      isMore ||= created?.registrations === registrationsPerOrder;
    }
    after = accounts.at(-1) ?? null;
    if (accounts.length < ACCOUNTS_PER_PAGE) {
      if (!isMore || clock.now().getTime() >= endMs) {
        return orders;
      }
      after = null;
      isMore = false;
    }
  }
};
