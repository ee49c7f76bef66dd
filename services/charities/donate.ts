import type { DatabasePool } from "slonik";
import { deleteDonationRequest } from "../../db/charities/donationRequests.ts";
import { findDonation, findDonationByKey } from "../../db/charities/donations.ts";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import type { Clock } from "../../domain/clock.ts";
import type {
  Donation,
  DonationOutcome,
  DonationRequest,
} from "../../domain/charities/donations.ts";
import { DomainError, OutageError } from "../../domain/errors.ts";
import { requestDonation } from "./requestDonation.ts";

/** Has a requested donation decided upon; throws when there is no answer in time, which leaves the outcome open. */
export type ValidateDonation = (donationId: string) => Promise<DonationOutcome>;

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly validateDonation: ValidateDonation;
};

const unanswered = (cause: unknown): OutageError =>
  new OutageError("the charity could not be validated in time; nothing was recorded", { cause });

/** The donation that a request has become, itself or by another of its idempotency key; null when it became none. */
const findRecorded = async (
  db: DatabasePool,
  request: DonationRequest,
  id: string,
): Promise<Donation | null> =>
  (await findDonation(db, request, id)) ??
  (request.idempotencyKey === null ? null : findDonationByKey(db, request, request.idempotencyKey));

/**
 * The outcome. A request that nobody has decided upon in time is taken back, so that it is not recorded after the client
 * was told that it failed; where it is too late for that, it is recorded.
 */
const awaitOutcome = async (
  { db, validateDonation }: Dependencies,
  request: DonationRequest,
  id: string,
): Promise<DonationOutcome> => {
  try {
    return await validateDonation(id);
  } catch (error) {
    await deleteDonationRequest(db, id);
    if (await findRecorded(db, request, id)) {
      return { kind: "recorded" };
    }
    throw unanswered(error);
  }
};

const record = async (
  dependencies: Dependencies,
  request: DonationRequest,
  id: string,
): Promise<Donation> => {
  const outcome = await awaitOutcome(dependencies, request, id);
  if (outcome.kind === "refused") {
    throw new DomainError(outcome.code, outcome.message);
  }
  if (outcome.kind === "unchecked") {
    throw new OutageError("charity search failed", { cause: new Error(outcome.reason) });
  }
  const donation = await findRecorded(dependencies.db, request, id);
  if (!donation) {
    throw unanswered(new Error(`Donation ${id} is ${outcome.kind}.`));
  }
  return donation;
};

/**
 * Records a donation once its charity is checked, or gives the one that its idempotency key stands for.
 * @throws DomainError for what is refused
 * @throws OutageError when the charity cannot be checked; nothing is recorded then, and nothing will be
 */
export const donate = async (
  dependencies: Dependencies,
  request: DonationRequest,
): Promise<{
  readonly donation: Donation;
  readonly totalDonations: number;
  readonly replayed: boolean;
}> => {
  const { db, clock } = dependencies;
  const requested = await requestDonation(db, request);
  const donation =
    requested.kind === "recorded"
      ? requested.donation
      : await record(dependencies, request, requested.id);
  const { all } = await readDonationTotals(db, request, clock.now());
  return {
    donation,
    totalDonations: all.count,
    replayed: requested.kind === "recorded" || !requested.isNew || donation.id !== requested.id,
  };
};
