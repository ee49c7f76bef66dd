import { markStoreUninstalled } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { getStore } from "./getStore.ts";

/**
 * Marks a store as uninstalled, which rejects its keys. A store that is uninstalled already keeps its date.
 * @throws DomainError record_not_found
 */
export const uninstallStore = (
  { db, clock, actor }: OperatorContext,
  id: string,
): Promise<{ readonly store: Store; readonly wasUninstalledBefore: boolean }> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const isNew = await markStoreUninstalled(transaction, id, now);
    if (isNew) {
      await recordAction(transaction, actor, now, { action: "store.uninstall", accountId: id });
    }
    return { store: await getStore(transaction, id), wasUninstalledBefore: !isNew };
  });
