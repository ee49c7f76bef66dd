import type { DatabasePool } from "slonik";
import { takeDonationRequest } from "../../db/charities/donationRequests.ts";
import { isDonation } from "../../db/charities/donations.ts";
import type { Charity, CharityProviderName } from "../../domain/charities/charities.ts";
import type { Clock } from "../../domain/clock.ts";
import type { DonationOutcome } from "../../domain/charities/donations.ts";
import { DomainError } from "../../domain/errors.ts";
import { bookDonation } from "./bookDonation.ts";

/**
 * Makes a waiting request a donation, counted in the totals, in one transaction. Repeating it changes nothing.
 * @returns withdrawn when whoever asked has given up, refused when a total would leave its range
 */
export const recordDonation = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  id: string,
  { charity, provider }: { readonly charity: Charity; readonly provider: CharityProviderName },
): Promise<DonationOutcome> => {
  try {
    return await db.transaction(async (transaction): Promise<DonationOutcome> => {
      const request = await takeDonationRequest(transaction, id);
      if (!request) {
        return { kind: (await isDonation(transaction, id)) ? "recorded" : "withdrawn" };
      }
      // Where another one has its idempotency key by now, that one stands for it.
      await bookDonation(transaction, request, {
        id,
        amountCents: request.amountCents,
        ein: charity.ein,
        nonprofitId: charity.nonprofitId,
        charityProvider: provider,
        charityName: request.charityName ?? charity.name,
        createdAt: clock.now(),
        idempotencyKey: request.idempotencyKey,
        attribution: request.attribution,
        metadata: request.metadata,
        refunded: false,
      });
      return { kind: "recorded" };
    });
  } catch (error) {
    if (error instanceof DomainError) {
      await db.transaction((transaction) => takeDonationRequest(transaction, id));
      return { kind: "refused", code: error.code, message: error.message };
    }
    throw error;
  }
};
