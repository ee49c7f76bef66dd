import type { DatabaseTransactionConnection } from "slonik";
import { updateAccountLimits } from "../../db/accounts/accountLimits.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { setLowBalance } from "../../db/stores/balances.ts";
import { updateStore as writeStore } from "../../db/stores/stores.ts";
import type { Store, StoreChanges } from "../../db/stores/stores.ts";
import type { NewLimits } from "../../domain/accounts/limits.ts";
import type { CharityProviderName } from "../../domain/accounts/accounts.ts";
import { becomesLow } from "../../domain/stores/stores.ts";
import { getOrganization } from "../accounts/getOrganization.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { lockBalance } from "./balance/lockBalance.ts";
import { recordLowBalance } from "./balance/reportBalance.ts";
import { getStore } from "./getStore.ts";

/** Absent settings stay unchanged. */
export type StoreUpdate = StoreChanges & {
  readonly lowBalanceCents?: number | undefined;
  readonly charityProvider?: CharityProviderName | undefined;
  readonly limits?: NewLimits | undefined;
};

/** Sets the threshold, and records it if that makes the balance low. */
const changeThreshold = async (
  transaction: DatabaseTransactionConnection,
  id: string,
  lowBalanceCents: number,
  now: Date,
): Promise<void> => {
  const balance = await lockBalance(transaction, id);
  if (becomesLow(balance, { ...balance, lowBalanceCents })) {
    await recordLowBalance(transaction, { ...balance, lowBalanceCents }, now);
  }
  await setLowBalance(transaction, id, lowBalanceCents);
};

/**
 * Changes the settings and limits of a store, all or none.
 * @throws DomainError record_not_found for an unknown store or organization, request_invalid if another store has the
 *   user id
 */
export const updateStore = (
  { db, clock, actor }: OperatorContext,
  id: string,
  { charityProvider, limits, lowBalanceCents, ...changes }: StoreUpdate,
): Promise<Store> =>
  db.transaction(async (transaction) => {
    if (typeof changes.organizationId === "string") {
      await getOrganization(transaction, changes.organizationId);
    }
    if (charityProvider !== undefined) {
      await updateAccount(transaction, id, { charityProvider });
    }
    if (limits !== undefined) {
      await updateAccountLimits(transaction, id, limits);
    }
    const now = clock.now();
    if (lowBalanceCents !== undefined) {
      await changeThreshold(transaction, id, lowBalanceCents, now);
    }
    await writeStore(transaction, id, changes);
    const store = await getStore(transaction, id);
    await recordAction(transaction, actor, now, {
      action: "store.update",
      accountId: id,
      details: { ...changes, lowBalanceCents, charityProvider, limits },
    });
    return store;
  });
