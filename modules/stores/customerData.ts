import type { CommonQueryMethods } from "slonik";
import { blankPage, listUnsharedEmails, readIdentities, recordsOf } from "./personalData.sql.ts";
import type { Blanked } from "./personalData.sql.ts";
import { MAXIMUM_CUSTOMER_RECORDS } from "./customers.rules.ts";
import type { CustomerIdentity } from "./customers.rules.ts";
import { listPersonalRecords } from "./storeRecords.sql.ts";
import { lockBalances } from "./stores.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";

const NOBODY: CustomerIdentity = { ids: [], emails: [], orderIds: [] };

/**
 * Finds a customer's other identifiers in a store's records: the id, further email addresses, and names. An id or address
 * that was not given must not be another customer's, because the records that have it are erased.
 */
const findCustomer = async (db: CommonQueryMethods, storeId: string, given: CustomerIdentity) => {
  const byEmail = await readIdentities(db, storeId, { ...NOBODY, emails: given.emails });
  const foundIds = [...new Set([...given.ids, ...byEmail.ids])];
  // Several ids are several customers who share an address, such as that of the shop itself.
  const ids = foundIds.length === 1 ? foundIds : given.ids;
  const byId = await readIdentities(db, storeId, { ...NOBODY, ids });
  const found = { ids, emails: byId.emails };
  const unshared = await listUnsharedEmails(db, storeId, found, MAXIMUM_CUSTOMER_RECORDS);
  const identity = { ...given, ids, emails: [...given.emails, ...unshared] };
  const { names } = await readIdentities(db, storeId, identity);
  return { ...identity, names };
};

/**
 * Returns everything that a store's records say about a customer, as the API and the command line show it. The export itself
 * is audited.
 */
export const exportCustomer = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  given: CustomerIdentity,
) => {
  const customer = await findCustomer(db, storeId, given);
  const limit = MAXIMUM_CUSTOMER_RECORDS;
  const list = (table: RecordTable) => listPersonalRecords(db, table, storeId, customer, limit + 1);
  const [registrations, donations] = [await list("registration"), await list("donation")];
  const found = {
    registrations: registrations.slice(0, limit),
    donations: donations.slice(0, limit),
    /** Whether there are more records; the newest are listed. */
    has_more: Math.max(registrations.length, donations.length) > limit,
  };
  await recordAction(db, actor, clock.now(), {
    action: "store.export_customer",
    accountId: storeId,
    details: { registrations: found.registrations.length, donations: found.donations.length },
  });
  return found;
};

/**
 * Erases what a store's records say about a customer: names, email addresses, customer and order ids, notes, the reasons of
 * refunds, and stored responses. Counts, prices and amounts stay. It may be interrupted and repeated.
 * @param given null for all customers
 * @returns how many records were changed
 */
export const forgetCustomer = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  given: CustomerIdentity | null,
): Promise<{ readonly registrations: number; readonly donations: number }> => {
  const customer = given && (await findCustomer(db, storeId, given));
  // First, because a change may commit and the process end before all are made.
  await recordAction(db, actor, clock.now(), {
    action: "store.forget",
    accountId: storeId,
    details: { of: customer === null ? "all customers" : "customer" },
  });
  const forgotten = { registration: 0, donation: 0 };
  for (const selection of recordsOf(storeId, customer)) {
    let after: string | null = null;
    do {
      const start: string | null = after;
      // Short transactions, because the store's writes wait for them.
      const { blanked, last }: Blanked = await db.transaction(async (transaction) => {
        await lockBalances(transaction, [storeId]);
        return blankPage(transaction, storeId, selection, start);
      });
      forgotten[selection.table] += blanked;
      after = last;
    } while (after !== null);
  }
  return { registrations: forgotten.registration, donations: forgotten.donation };
};
