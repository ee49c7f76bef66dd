import type { DatabasePool } from "slonik";
import { markStoreUninstalled } from "../../db/stores/stores.ts";
import type { Store } from "../../db/stores/stores.ts";
import type { Clock } from "../../domain/clock.ts";
import { getStore } from "./getStore.ts";

/**
 * Closes a store. Of one that is closed already the first date stays.
 * @throws DomainError record_not_found
 */
export const uninstallStore = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  id: string,
): Promise<{ readonly store: Store; readonly wasUninstalledBefore: boolean }> =>
  db.transaction(async (transaction) => {
    const isFirst = await markStoreUninstalled(transaction, id, clock.now());
    return { store: await getStore(transaction, id), wasUninstalledBefore: !isFirst };
  });
