import type { CommonQueryMethods } from "slonik";
import { insertDonation } from "./donations.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ConfirmedCharity } from "./charities.rules.ts";
import type { ConfirmedDonation, DonationCustomer, NewDonation } from "./donations.rules.ts";
import type { StoredEventContent } from "../events/events.rules.ts";
import { createEvent } from "../events/recordEvent.ts";

/** Returns the record of a donation whose charity is confirmed. */
export const createDonation = <Time extends Date | string>(
  { id, amountCents, charityName, idempotencyKey, attribution, metadata }: NewDonation,
  { charity, provider }: ConfirmedCharity,
  createdAt: Time,
): ConfirmedDonation<Time> => ({
  id,
  importedId: null,
  amountCents,
  ein: charity.ein,
  nonprofitId: charity.nonprofitId,
  charityProvider: provider,
  charityName: charityName ?? charity.name,
  confirmedName: charity.name,
  createdAt,
  idempotencyKey,
  attribution,
  metadata,
  refunded: false,
});

/**
 * Records a donation with its totals and events.
 * @param customer of a store's donation; null for an organization's
 * @returns how many donations the owner has then; null, with nothing recorded, if the owner already has a donation under
 *   the idempotency key
 * @throws DomainError request_invalid if a total would leave its range
 */
export const recordDonation = (
  db: CommonQueryMethods,
  owner: AccountMode,
  donation: ConfirmedDonation<Date | string>,
  customer: DonationCustomer | null,
  events: readonly StoredEventContent[],
): Promise<number | null> => insertDonation(db, owner, donation, customer, events.map(createEvent));
