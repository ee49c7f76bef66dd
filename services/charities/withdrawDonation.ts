import type { CommonQueryMethods } from "slonik";
import { deleteDonationRequest } from "../../db/charities/donationRequests.ts";

/** Has a requested donation that could not be checked wait no longer; one that is decided upon stays so. */
export const withdrawDonation = async (
  { db }: { readonly db: CommonQueryMethods },
  id: string,
): Promise<void> => {
  await deleteDonationRequest(db, id);
};
