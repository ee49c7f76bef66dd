import type { StoreContext } from "./createStoreWriter.ts";
import { getStore } from "./manageStores.ts";
import { findDisabled } from "./stores.rules.ts";
import type { Store } from "./stores.sql.ts";
import type { AnyStoreWrite, StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { findEarlierResponse } from "./storeWrites.sql.ts";

/**
 * Does a write that calls another service first. A repetition does not call it, and neither does the write of a disabled
 * feature.
 * @throws DomainError as `StoreWriter`
 */
export const writePrepared = async (
  { db, storeWriter }: StoreContext,
  write: StoreWrite,
  prepare: (store: Store) => Promise<AnyStoreWrite>,
): Promise<StoreResponse> => {
  const [earlier, store] = await Promise.all([
    findEarlierResponse(db, write),
    getStore(db, write.accountId),
  ]);
  if (earlier) {
    return earlier;
  }
  const disabled = findDisabled(store, write.operation);
  if (disabled) {
    throw disabled;
  }
  return storeWriter.write(await prepare(store));
};
