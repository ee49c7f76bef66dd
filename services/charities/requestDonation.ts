import type { DatabasePool } from "slonik";
import { v7 as newId } from "uuid";
import {
  deleteAbandonedRequests,
  findWaitingRequestId,
  insertDonationRequest,
} from "../../db/charities/donationRequests.ts";
import { findDonationByKey } from "../../db/charities/donations.ts";
import type { Donation, DonationRequest } from "../../domain/charities/donations.ts";

/** A donation that is on record already, or the id under which one waits for its charity to be checked. */
export type RequestedDonation =
  | { readonly kind: "recorded"; readonly donation: Donation }
  | { readonly kind: "waiting"; readonly id: string; readonly isNew: boolean };

/**
 * Takes a client's request for a donation. Of concurrent requests with one idempotency key one is kept and all get its
 * id; a decided one has left either a donation or nothing behind.
 */
export const requestDonation = async (
  db: DatabasePool,
  request: DonationRequest,
): Promise<RequestedDonation> => {
  const { idempotencyKey } = request;
  await deleteAbandonedRequests(db);
  for (;;) {
    const donation = idempotencyKey && (await findDonationByKey(db, request, idempotencyKey));
    if (donation) {
      return { kind: "recorded", donation };
    }
    const id = newId();
    if (await insertDonationRequest(db, id, request)) {
      return { kind: "waiting", id, isNew: true };
    }
    const waitingId = idempotencyKey && (await findWaitingRequestId(db, request, idempotencyKey));
    if (waitingId) {
      return { kind: "waiting", id: waitingId, isNew: false };
    }
    // It was decided upon between our two looks.
  }
};
