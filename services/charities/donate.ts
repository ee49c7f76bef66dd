import type { DatabasePool } from "slonik";
import { v7 as newId } from "uuid";
import { findDonationByKey } from "../../db/charities/donations.ts";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import type { Donation, DonationRequest } from "../../domain/charities/donations.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { ConfirmCharityDependencies } from "./confirmCharity.ts";
import { confirmCharity } from "./confirmCharity.ts";
import { recordEvent } from "../events/recordEvent.ts";
import { donationCreated } from "./donationData.ts";
import { recordDonation } from "./recordDonation.ts";
import { requireDonationSubscription } from "./requireDonationSubscription.ts";

export type DonateDependencies = ConfirmCharityDependencies & {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

export type Donated = {
  readonly donation: Donation;
  readonly totalDonations: number;
  readonly replayed: boolean;
};

const findReplay = async (db: DatabasePool, request: DonationRequest): Promise<Donation | null> =>
  request.idempotencyKey === null ? null : findDonationByKey(db, request, request.idempotencyKey);

/** Returns the new donation, or null if a concurrent request with the same idempotency key was first. */
const record = async (
  deps: DonateDependencies,
  request: DonationRequest,
): Promise<Donation | null> => {
  if (request.mode === "live") {
    await requireDonationSubscription(deps, request.accountId);
  }
  const id = newId();
  const confirmed = await confirmCharity(deps, request.accountId, id, request.charity);
  return deps.db.transaction(async (transaction) => {
    const now = deps.clock.now();
    const entry = { ...request, id };
    const donation = await recordDonation(transaction, request, entry, confirmed, now);
    if (donation) {
      await recordEvent(transaction, request, donationCreated(donation), now);
    }
    return donation;
  });
};

/** Returns what the first request with the idempotency key recorded, or null. */
export const findOriginalDonation = async (
  { db, clock }: Pick<DonateDependencies, "db" | "clock">,
  request: DonationRequest,
): Promise<Donated | null> => {
  const donation = await findReplay(db, request);
  if (!donation) {
    return null;
  }
  const { all } = await readDonationTotals(db, request, clock.now());
  return { donation, totalDonations: all.count, replayed: true };
};

/**
 * Records an organization's donation once its charity is confirmed. A known idempotency key returns its first donation.
 * After a DomainError or an OutageError nothing is recorded, and nothing will be.
 * @throws DomainError charity_not_found, donations_not_subscribed or request_invalid
 * @throws OutageError if the charity cannot be validated
 */
export const donate = async (
  deps: DonateDependencies,
  request: DonationRequest,
): Promise<Donated> => {
  const { db, clock } = deps;
  const known = await findReplay(db, request);
  const recorded = known ? null : await record(deps, request);
  const donation = known ?? recorded ?? (await findReplay(db, request));
  if (!donation) {
    throw new Error("The donation is neither new nor known under its idempotency key.");
  }
  const { all } = await readDonationTotals(db, request, clock.now());
  return { donation, totalDonations: all.count, replayed: recorded === null };
};
