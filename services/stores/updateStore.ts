import type { DatabasePool } from "slonik";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { updateStore as writeStore } from "../../db/stores/stores.ts";
import type { Store, StoreChanges } from "../../db/stores/stores.ts";
import type { CharityProviderName } from "../../domain/charities/charities.ts";
import { getOrganization } from "../accounts/getOrganization.ts";
import { getStore } from "./getStore.ts";

/** Absent settings stay unchanged. */
export type StoreUpdate = StoreChanges & {
  readonly charityProvider?: CharityProviderName | undefined;
};

/**
 * Changes the settings of a store, all or none.
 * @throws DomainError record_not_found for an unknown store or organization, request_invalid if another store has the
 *   user id
 */
export const updateStore = (
  { db }: { readonly db: DatabasePool },
  id: string,
  { charityProvider, ...changes }: StoreUpdate,
): Promise<Store> =>
  db.transaction(async (transaction) => {
    if (typeof changes.organizationId === "string") {
      await getOrganization(transaction, changes.organizationId);
    }
    if (charityProvider !== undefined) {
      await updateAccount(transaction, id, { charityProvider });
    }
    await writeStore(transaction, id, changes);
    return getStore(transaction, id);
  });
