import type { DatabasePool } from "slonik";
import { deleteDonationRequest } from "../db/donationRequests.ts";
import { findDonation, findDonationByKey } from "../db/donations.ts";
import type { AccountMode } from "../domain/accounts.ts";
import type { Donation } from "../domain/donations.ts";

type Asked = AccountMode & { readonly idempotencyKey: string | null };

/** The donation that a request has become, itself or by another of its idempotency key; null when it became none. */
export const findRecordedDonation = async (
  db: DatabasePool,
  asked: Asked,
  id: string,
): Promise<Donation | null> =>
  (await findDonation(db, asked, id)) ??
  (asked.idempotencyKey === null ? null : findDonationByKey(db, asked, asked.idempotencyKey));

/**
 * Takes a requested donation back, so that it is not recorded after the client was told that it failed.
 * @returns the donation where it is too late for that: it is recorded
 */
export const giveUpOnDonation = async (
  db: DatabasePool,
  asked: Asked,
  id: string,
): Promise<Donation | null> => {
  await deleteDonationRequest(db, id);
  return findRecordedDonation(db, asked, id);
};
