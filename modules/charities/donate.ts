import type { CommonQueryMethods } from "slonik";
import type { Account } from "../accounts/accounts.sql.ts";
import { findDonationByKey, insertDonation } from "./donations.sql.ts";
import { readDonationTotals } from "./donationTotals.sql.ts";
import type {
  Donation,
  DonationRequest,
  ConfirmedDonation,
  DonationCustomer,
  NewDonation,
} from "./donations.rules.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { BillingContext } from "../billing/context.ts";
import type { Context } from "../../runtime/context.ts";
import { confirmCharity } from "./confirmCharity.ts";
import type { CharityContext } from "./context.ts";
import { donationCreated } from "./presentDonation.rules.ts";
import { requireDonationSubscription } from "./subscribeToDonations.ts";
import { newId } from "../../runtime/newId.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ConfirmedCharity } from "./charities.rules.ts";
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

type Donated = {
  readonly donation: Donation;
  readonly totalDonations: number;
  readonly replayed: boolean;
};

/** Returns the new donation, or null if a concurrent request with the same idempotency key was first. */
const record = async (
  context: CharityContext & BillingContext,
  account: Account,
  request: DonationRequest,
): Promise<Donated | null> => {
  const { db, clock, charities } = context;
  if (request.mode === "live") {
    await requireDonationSubscription(context, account);
  }
  const id = newId();
  const provider = charities.named(account.charityProvider, account.id);
  const confirmed = await confirmCharity(
    context,
    provider,
    { id, accountId: account.id },
    request.charity,
  );
  const donation = createDonation({ ...request, id }, confirmed, clock.now());
  const totalDonations = await recordDonation(db, request, donation, null, [
    donationCreated(donation),
  ]);
  return totalDonations === null ? null : { donation, totalDonations, replayed: false };
};

/** Returns what the first request with the idempotency key recorded, or null. */
export const findOriginalDonation = async (
  { db, clock }: Context,
  request: DonationRequest,
): Promise<Donated | null> => {
  const { idempotencyKey } = request;
  const donation =
    idempotencyKey === null ? null : await findDonationByKey(db, request, idempotencyKey);
  if (!donation) {
    return null;
  }
  const { all } = await readDonationTotals(db, request, clock.now());
  return { donation, totalDonations: all.count, replayed: true };
};

/**
 * Records an organization's donation once its charity is confirmed. A known idempotency key returns its first donation.
 * After a DomainError or an OutageError nothing is recorded, and nothing will be.
 * @throws DomainError charity_not_found, donations_not_subscribed, charity_unconfirmed or request_invalid
 * @throws OutageError if the charity cannot be validated
 */
export const donate = async (
  context: CharityContext & BillingContext,
  request: DonationRequest,
): Promise<Donated> => {
  const [original, account] = await Promise.all([
    findOriginalDonation(context, request),
    getAccount(context.db, request.accountId),
  ]);
  const donated =
    original ??
    (await record(context, account, request)) ??
    (await findOriginalDonation(context, request));
  if (!donated) {
    throw new Error("The donation is neither new nor known under its idempotency key.");
  }
  return donated;
};
