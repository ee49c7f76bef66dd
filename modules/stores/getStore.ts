import type { CommonQueryMethods } from "slonik";
import { findStore } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

/** @throws DomainError record_not_found */
export const getStore = async (db: CommonQueryMethods, id: string): Promise<Store> => {
  const store = await findStore(db, id);
  if (!store) {
    throw new DomainError("record_not_found", `store ${id} not found`);
  }
  return store;
};
