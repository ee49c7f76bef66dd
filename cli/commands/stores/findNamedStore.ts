import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Store } from "../../../db/stores/stores.ts";
import { findStore, findStoreByDomain } from "../../../db/stores/stores.ts";
import { normalizeDomain } from "../../../domain/stores/stores.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";

/** The store that a person names by its id or its domain. */
export const findNamedStore = async (db: CommonQueryMethods, named: string): Promise<Store> => {
  const domain = normalizeDomain(named);
  const isId = z.guid().safeParse(named).success;
  const store = isId
    ? await findStore(db, named)
    : domain !== null && (await findStoreByDomain(db, domain));
  if (!store) {
    throw new CommandError(EXIT.notFound, `There is no store ${named}.`);
  }
  return store;
};
