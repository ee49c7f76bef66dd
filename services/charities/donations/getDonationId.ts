import type { CommonQueryMethods } from "slonik";
import { listDonationIds } from "../../../db/charities/donations.ts";
import { requireOneRecord } from "../../../domain/recordIds.ts";

/**
 * Returns the id of the donation that an operator names by its id or by the id that it was imported with.
 * @throws DomainError record_not_found, or request_invalid if several accounts have imported such an id
 */
export const getDonationId = async (db: CommonQueryMethods, given: string): Promise<string> =>
  requireOneRecord("donation", given, await listDonationIds(db, given));
