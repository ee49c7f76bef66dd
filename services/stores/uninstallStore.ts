import type { DatabasePool } from "slonik";
import { markStoreUninstalled } from "../../db/stores/stores.ts";
import type { Store } from "../../db/stores/stores.ts";
import type { Clock } from "../../domain/clock.ts";
import { getStore } from "./getStore.ts";

/**
 * Marks a store as uninstalled, which rejects its keys. A store that is uninstalled already keeps its date.
 * @throws DomainError record_not_found
 */
export const uninstallStore = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  id: string,
): Promise<{ readonly store: Store; readonly wasUninstalledBefore: boolean }> =>
  db.transaction(async (transaction) => {
    const isNew = await markStoreUninstalled(transaction, id, clock.now());
    return { store: await getStore(transaction, id), wasUninstalledBefore: !isNew };
  });
