import type { DatabasePool } from "slonik";
import {
  listPersonalDonations,
  listPersonalRegistrations,
} from "../../../db/stores/personalRecords.ts";
import type { PersonalDonation, PersonalRegistration } from "../../../db/stores/personalRecords.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { MAXIMUM_CUSTOMER_RECORDS } from "../../../domain/stores/customerIdentity.ts";
import type { CustomerIdentity } from "../../../domain/stores/customerIdentity.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { findCustomer } from "./findCustomer.ts";

export type CustomerExport = {
  readonly registrations: readonly PersonalRegistration[];
  readonly donations: readonly PersonalDonation[];
  /** Whether there are more records; the newest are listed. */
  readonly hasMore: boolean;
};

/** Returns everything that a store's records say about a customer. The export itself is audited. */
export const exportCustomer = async (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  storeId: string,
  given: CustomerIdentity,
): Promise<CustomerExport> => {
  const known = await findCustomer(db, storeId, given);
  const selections = known.names.length === 0 ? [known.identity] : [known.identity, known];
  const registrations: PersonalRegistration[] = [];
  const donations: PersonalDonation[] = [];
  for (const selection of selections) {
    const limit = MAXIMUM_CUSTOMER_RECORDS + 1;
    registrations.push(...(await listPersonalRegistrations(db, storeId, selection, limit)));
    donations.push(...(await listPersonalDonations(db, storeId, selection, limit)));
  }
  const hasMore = Math.max(registrations.length, donations.length) > MAXIMUM_CUSTOMER_RECORDS;
  const found = {
    registrations: registrations.slice(0, MAXIMUM_CUSTOMER_RECORDS),
    donations: donations.slice(0, MAXIMUM_CUSTOMER_RECORDS),
  };
  await recordAction(db, actor, clock.now(), {
    action: "store.export_customer",
    accountId: storeId,
    details: {
      registrations: found.registrations.length,
      donations: found.donations.length,
    },
  });
  return { ...found, hasMore };
};
