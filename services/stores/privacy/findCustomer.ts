import type { CommonQueryMethods } from "slonik";
import { readIdentities } from "../../../db/stores/personalData.ts";
import { addEmails, addOnlyId } from "../../../domain/stores/customerIdentity.ts";
import type { CustomerIdentity, KnownCustomer } from "../../../domain/stores/customerIdentity.ts";

const NOBODY: CustomerIdentity = { ids: [], emails: [], orderIds: [] };

/** Finds a customer's other identifiers in a store's records: the id, further email addresses, and names. */
export const findCustomer = async (
  db: CommonQueryMethods,
  storeId: string,
  given: CustomerIdentity,
): Promise<KnownCustomer> => {
  const byEmail = await readIdentities(db, storeId, { ...NOBODY, emails: given.emails });
  const withId = addOnlyId(given, byEmail.ids);
  const byId = await readIdentities(db, storeId, { ...NOBODY, ids: withId.ids });
  const identity = addEmails(withId, byId.emails);
  const { names } = await readIdentities(db, storeId, identity);
  return { identity, names };
};
