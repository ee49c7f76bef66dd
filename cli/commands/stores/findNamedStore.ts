import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Store } from "../../../db/stores/stores.ts";
import { findStore, findStoreByDomain } from "../../../db/stores/stores.ts";
import { normalizeDomain } from "../../../domain/stores/stores.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";

/**
 * Returns the store with an id or a domain.
 * @throws CommandError with the exit code `notFound`
 */
export const findNamedStore = async (
  db: CommonQueryMethods,
  idOrDomain: string,
): Promise<Store> => {
  const domain = normalizeDomain(idOrDomain);
  const isId = z.guid().safeParse(idOrDomain).success;
  const store = isId
    ? await findStore(db, idOrDomain)
    : domain !== null && (await findStoreByDomain(db, domain));
  if (!store) {
    throw new CommandError(EXIT.notFound, `Store ${idOrDomain} not found. See impact store list.`);
  }
  return store;
};
