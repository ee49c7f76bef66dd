import { updateStore as writeStore } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { getStore } from "./getStore.ts";

/**
 * Accepts an uninstalled store's keys again. A store that is installed stays as it is.
 * @throws DomainError record_not_found
 */
export const reinstallStore = ({ db, clock, actor }: OperatorContext, id: string): Promise<Store> =>
  db.transaction(async (transaction) => {
    const { uninstalledAt } = await getStore(transaction, id);
    if (uninstalledAt !== null) {
      await writeStore(transaction, id, { uninstalledAt: null });
      await recordAction(transaction, actor, clock.now(), {
        action: "store.reinstall",
        accountId: id,
        details: { uninstalledAt },
      });
    }
    return getStore(transaction, id);
  });
