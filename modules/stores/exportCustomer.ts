import type { DatabasePool } from "slonik";
import {
  listPersonalDonations,
  listPersonalRegistrations,
  listRefundReasons,
} from "./personalRecords.sql.ts";
import type {
  PersonalDonation,
  PersonalRegistration,
  RegistrationWithReasons,
} from "./personalRecords.sql.ts";
import { MAXIMUM_CUSTOMER_RECORDS } from "./customers.rules.ts";
import type { CustomerIdentity } from "./customers.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { findCustomer } from "./findCustomer.ts";

export type CustomerExport = {
  readonly registrations: readonly RegistrationWithReasons[];
  readonly donations: readonly PersonalDonation[];
  /** Whether there are more records or reasons of refunds; the newest are listed. */
  readonly hasMore: boolean;
};

/** Returns how many records to read after others: one more than are exported, which shows that there are more. */
const limitAfter = (records: readonly unknown[]): number =>
  MAXIMUM_CUSTOMER_RECORDS + 1 - records.length;

/** Adds the reasons of their refunds to registrations, oldest first, as far as the limit allows. */
const withReasons = async (db: DatabasePool, registrations: readonly PersonalRegistration[]) => {
  const ids = registrations.map(({ id }) => id);
  const reasons = await listRefundReasons(db, ids, MAXIMUM_CUSTOMER_RECORDS + 1);
  const listed = reasons.slice(0, MAXIMUM_CUSTOMER_RECORDS).toReversed();
  const byId = Map.groupBy(listed, ({ registrationId }) => registrationId);
  return {
    registrations: registrations.map((registration) => ({
      ...registration,
      refundReasons: (byId.get(registration.id) ?? []).map(({ reason }) => reason),
    })),
    hasMore: reasons.length > listed.length,
  };
};

/** Returns everything that a store's records say about a customer. The export itself is audited. */
export const exportCustomer = async (
  { db, clock, actor }: OperatorContext,
  storeId: string,
  given: CustomerIdentity,
): Promise<CustomerExport> => {
  const known = await findCustomer(db, storeId, given);
  const selections = known.names.length === 0 ? [known.identity] : [known.identity, known];
  const found: PersonalRegistration[] = [];
  const foundDonations: PersonalDonation[] = [];
  for (const selection of selections) {
    found.push(...(await listPersonalRegistrations(db, storeId, selection, limitAfter(found))));
    foundDonations.push(
      ...(await listPersonalDonations(db, storeId, selection, limitAfter(foundDonations))),
    );
  }
  const { registrations, hasMore } = await withReasons(
    db,
    found.slice(0, MAXIMUM_CUSTOMER_RECORDS),
  );
  const donations = foundDonations.slice(0, MAXIMUM_CUSTOMER_RECORDS);
  await recordAction(db, actor, clock.now(), {
    action: "store.export_customer",
    accountId: storeId,
    details: { registrations: registrations.length, donations: donations.length },
  });
  return {
    registrations,
    donations,
    hasMore:
      hasMore || found.length > registrations.length || foundDonations.length > donations.length,
  };
};
