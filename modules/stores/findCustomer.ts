import type { CommonQueryMethods } from "slonik";
import { listUnsharedEmails, readIdentities } from "./personalData.sql.ts";
import { MAXIMUM_CUSTOMER_RECORDS, addEmails, addOnlyId } from "./customers.rules.ts";
import type { CustomerIdentity, KnownCustomer } from "./customers.rules.ts";

const NOBODY: CustomerIdentity = { ids: [], emails: [], orderIds: [] };

/**
 * Finds a customer's other identifiers in a store's records: the id, further email addresses, and names. An id or address
 * that was not given must not be another customer's, because the records that have it are erased.
 */
export const findCustomer = async (
  db: CommonQueryMethods,
  storeId: string,
  given: CustomerIdentity,
): Promise<KnownCustomer> => {
  const byEmail = await readIdentities(db, storeId, { ...NOBODY, emails: given.emails });
  const withId = addOnlyId(given, byEmail.ids);
  const byId = await readIdentities(db, storeId, { ...NOBODY, ids: withId.ids });
  const found = { ids: withId.ids, emails: byId.emails };
  const unshared = await listUnsharedEmails(db, storeId, found, MAXIMUM_CUSTOMER_RECORDS);
  const identity = addEmails(withId, unshared);
  const { names } = await readIdentities(db, storeId, identity);
  return { identity, names };
};
