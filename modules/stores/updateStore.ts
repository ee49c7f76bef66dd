import type { DatabaseTransactionConnection } from "slonik";
import { updateAccountLimits } from "../accounts/accountLimits.sql.ts";
import { updateAccount } from "../accounts/accounts.sql.ts";
import { setLowBalance } from "./balances.sql.ts";
import { updateStore as writeStore } from "./stores.sql.ts";
import type { Store, StoreChanges } from "./stores.sql.ts";
import type { NewLimits } from "../accounts/limits.rules.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import { becomesLow } from "./stores.rules.ts";
import { getOrganization } from "../accounts/getAccount.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { lockBalance } from "./lockBalance.ts";
import { recordLowBalance } from "./reportBalance.ts";
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
