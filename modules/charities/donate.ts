import { insertDonations } from "./donationBatches.sql.ts";
import { readDonationTotals } from "./donationTotals.sql.ts";
import { accountModeOf } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { completeOutcomes, countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
import type { ConfirmedCharity } from "./charities.rules.ts";
import type { ConfirmedDonation, DonationRequest } from "./donations.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import type { BillingContext } from "../billing/context.ts";
import type { Context } from "../../runtime/context.ts";
import { charityKey, confirmCharities } from "./confirmCharities.ts";
import type { CharityOutcomes } from "./confirmCharities.ts";
import type { CharityContext } from "./context.ts";
import { readDonor } from "./donationSubscriptions.sql.ts";
import type { Donor } from "./donationSubscriptions.sql.ts";
import { donationCreated } from "./donations.rules.ts";
import type { WrittenDonation } from "./readDonations.ts";
import { subscriptionStateOf } from "./subscribeToDonations.ts";
import { DomainError, mustExist } from "../../runtime/errors.rules.ts";
import { newId } from "../../runtime/newId.ts";

export type DonationContext = CharityContext & BillingContext;

type Item = DonationRequest & { readonly id: string };

const createDonation = (
  { charity: _ids, charityName, ...item }: Item,
  { charity, provider }: ConfirmedCharity,
): ConfirmedDonation => ({
  ...item,
  importedId: null,
  ein: charity.ein,
  nonprofitId: charity.nonprofitId,
  charityProvider: provider,
  charityName: charityName ?? charity.name,
  confirmedName: charity.name,
  refunded: false,
});

/** An accepted item. One without a donation repeats the idempotency key of an earlier one. */
type Decision = Omit<WrittenDonation, "donation"> & { readonly donation: ConfirmedDonation | null };

export type Donated = WrittenDonation & {
  readonly totalDonations: number;
  readonly replayed: boolean;
};

/**
 * Decides items in their order, as if each were a call of its own: one that repeats the key of an accepted item is
 * a replay, whatever its charity and its amount are.
 */
const decide = (
  items: readonly Item[],
  { knownKeys }: Pick<Donor, "knownKeys">,
  charities: CharityOutcomes,
): readonly Outcome<Decision>[] => {
  const keys = new Set(knownKeys);
  return items.map((item): Outcome<Decision> => {
    const { id, idempotencyKey: key } = item;
    if (key !== null && keys.has(key)) {
      return { id, key, donation: null };
    }
    const charity = mustExist(
      charities.get(charityKey(item.charity)),
      "The charity of a donation is neither confirmed nor rejected.",
    );
    if (!isAccepted(charity)) {
      return charity;
    }
    if (key !== null) {
      keys.add(key);
    }
    return { id, key, donation: createDonation(item, charity) };
  });
};

/** Confirms the charities of new donations, or refuses them all to a donor that may not donate. */
const confirmAll = async (
  context: DonationContext,
  { accountId, mode }: AccountMode,
  donor: Donor,
  items: readonly Item[],
): Promise<CharityOutcomes> => {
  const known = new Set<string | null>(donor.knownKeys);
  const donations = items.filter(({ idempotencyKey }) => !known.has(idempotencyKey));
  if (donations.length === 0) {
    // Replays need no provider, which may have lost its API key since.
    return new Map();
  }
  if (mode === "live" && subscriptionStateOf(context, donor, mode) !== "active") {
    const refusal = new DomainError("donations_not_subscribed", "donation subscription not active");
    return new Map(donations.map(({ charity }) => [charityKey(charity), refusal]));
  }
  const provider = context.charities.named(donor.charityProvider, accountId);
  return confirmCharities(context, provider, accountId, donations);
};

/** Records accepted items of an owner in one statement, and presents them with the total after each. */
const write = async (
  { db, clock }: Context,
  owner: AccountMode,
  decisions: readonly Decision[],
): Promise<readonly Outcome<Donated>[]> => {
  const createdAt = clock.now();
  const donations = decisions.flatMap(({ donation }) => donation ?? []);
  const events = donations.map((donation) => createEvent(owner, donationCreated(donation)));
  const { ids, count } =
    donations.length === 0
      ? { ids: [], count: null }
      : await insertDonations(db, owner, donations, createdAt, events);
  const inserted = new Set(ids);
  return countBack(
    decisions,
    count ?? (await readDonationTotals(db, owner)).count,
    ({ id }) => (inserted.has(id) ? 1 : 0),
    ({ id, key, donation }, totalDonations): Donated => {
      // A concurrent call may have been first with the key.
      const replayed = !inserted.has(id);
      const recorded = donation && !replayed ? { ...donation, createdAt } : null;
      return { id, key, donation: recorded, totalDonations, replayed };
    },
  );
};

/**
 * Records an organization's donations together, in their order, once their charities are confirmed. An item with a known
 * idempotency key, or with that of an earlier item, returns the original record. Nothing is recorded of a rejected item.
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @returns the outcome of each item; its error is charity_not_found, donations_not_subscribed, charity_unconfirmed or
 *   request_invalid
 * @throws BatchRejectedError
 * @throws DomainError request_invalid if the owner's total would exceed a safe integer; nothing is recorded then
 */
export const donate = async (
  context: DonationContext,
  caller: AccountMode,
  requests: readonly DonationRequest[],
  isAtomic: boolean,
): Promise<readonly Outcome<Donated>[]> => {
  const owner = accountModeOf(caller);
  const items = requests.map((request) => ({ ...request, id: newId() }));
  const keys = requests.flatMap(({ idempotencyKey }) => idempotencyKey ?? []);
  const donor = await readDonor(context.db, owner, keys);
  const charities = await confirmAll(context, owner, donor, items);
  let outcomes = decide(items, donor, charities);
  if (keys.length > 0 && !outcomes.every(isAccepted)) {
    // An earlier attempt may have recorded meanwhile what this one could not confirm.
    outcomes = decide(items, await readDonor(context.db, owner, keys), charities);
  }
  if (isAtomic) {
    requireAll(outcomes);
  }
  const written = await write(context, owner, outcomes.filter(isAccepted));
  return completeOutcomes(outcomes, written);
};
