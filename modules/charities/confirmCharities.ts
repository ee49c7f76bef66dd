import type {
  Charity,
  CharityIds,
  CharityLookup,
  CharityValidation,
  ConfirmedCharity,
} from "./charities.rules.ts";
import { formatEin } from "./charities.rules.ts";
import { DomainError, OutageError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Charities } from "./createCharities.ts";
import { CharityProviderError } from "./provider.ts";
import type { CharityProvider } from "./provider.ts";
import type { CharityContext } from "./context.ts";
import { asRejection, outcomeOf } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { runConcurrently } from "../../runtime/runConcurrently.ts";

/**
 * Returns the charity if it is the one that the client named.
 * @throws DomainError charity_not_found, or request_invalid if the client's two ids disagree
 */
const requireMatch = (charity: Charity | null, { ein, nonprofitId }: CharityIds): Charity => {
  if (!charity) {
    throw new DomainError(
      "charity_not_found",
      nonprofitId === null
        ? `no charity found for the ein ${formatEin(ein)}`
        : `no charity found for the nonprofit_id ${nonprofitId}`,
    );
  }
  if (ein !== null && charity.ein !== ein) {
    throw invalidRequest(
      `ein and nonprofit_id do not agree: ${charity.nonprofitId} is ${formatEin(charity.ein) || "a charity without an EIN"}`,
    );
  }
  return charity;
};

const searchFailed = (cause: unknown): OutageError =>
  new OutageError("charity search failed", { cause });

type Donation = { readonly id: string; readonly charity: CharityIds };

/**
 * @throws DomainError charity_not_found, request_invalid if the ids disagree, or charity_unconfirmed if the account calls the
 *   provider too often
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
const confirmByWorkflow = async (
  context: Pick<CharityContext, "validateCharity">,
  { id, charity }: Donation,
  caller: Pick<CharityLookup, "provider" | "accountId">,
): Promise<ConfirmedCharity> => {
  const validation = await context
    .validateCharity(id, { ...charity, ...caller })
    .catch((cause: unknown) => {
      throw new OutageError("the charity could not be validated in time; nothing was recorded", {
        cause,
      });
    });
  if (validation.kind === "rejected") {
    throw new DomainError(validation.code, validation.message);
  }
  if (validation.kind === "unavailable") {
    throw searchFailed(new Error(validation.reason));
  }
  return validation;
};

/** As many calls of a remote provider as single donations of a key may cause in a second. */
const MAXIMUM_VALIDATIONS = 20;

const CONCURRENT_VALIDATIONS = 5;

const unconfirmed = (why: string, cause?: unknown): DomainError =>
  new DomainError("charity_unconfirmed", `the charity is not confirmed: ${why}; try again`, {
    cause,
  });

/** Returns a string that is the same for the same charity, named in the same way. */
export const charityKey = ({ ein, nonprofitId }: CharityIds): string =>
  JSON.stringify([ein, nonprofitId]);

/** Confirmed charities and why others are not, by `charityKey`. */
export type CharityOutcomes = ReadonlyMap<string, Outcome<ConfirmedCharity>>;

/**
 * Confirms the charities of donations, each once. Those that need a remote provider are validated in their order, up to a
 * maximum; what is found is remembered, so that a repeated batch gets further. After an outage no more calls of the provider
 * begin, and the outage is the cause of what is unconfirmed.
 * @param provider the account's
 */
export const confirmCharities = async (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  accountId: string,
  donations: readonly Donation[],
): Promise<CharityOutcomes> => {
  const outcomes = new Map<string, Outcome<ConfirmedCharity>>();
  const unknown: (readonly [string, Donation])[] = [];
  const byKey = new Map(donations.map((donation) => [charityKey(donation.charity), donation]));
  const findKnown = async ([key, donation]: readonly [string, Donation]): Promise<void> => {
    const { charity: ids } = donation;
    const found = await provider.findKnown(ids);
    if (found === undefined) {
      unknown.push([key, donation]);
    } else {
      const confirm = () => ({ charity: requireMatch(found, ids), provider: provider.name });
      outcomes.set(key, outcomeOf(confirm));
    }
  };
  await Promise.all(Array.from(byKey, findKnown));
  let outage: OutageError | null = null;
  const validate = async (donation: Donation): Promise<Outcome<ConfirmedCharity>> => {
    try {
      if (outage) {
        throw outage;
      }
      const caller = { provider: provider.name, accountId };
      const confirmed = await confirmByWorkflow(context, donation, caller);
      provider.remember?.(donation.charity, confirmed.charity);
      return confirmed;
    } catch (error) {
      if (!(error instanceof OutageError)) {
        return asRejection(error);
      }
      outage = error;
      return unconfirmed("its provider could not validate it", outage);
    }
  };
  const beyond = unconfirmed(`a batch validates at most ${MAXIMUM_VALIDATIONS} new charities`);
  unknown.slice(MAXIMUM_VALIDATIONS).forEach(([key]) => outcomes.set(key, beyond));
  await runConcurrently(
    unknown.slice(0, MAXIMUM_VALIDATIONS),
    async ([key, donation]) => void outcomes.set(key, await validate(donation)),
    { concurrency: CONCURRENT_VALIDATIONS },
  );
  return outcomes;
};

/** Validates a charity by calling its provider; the activity of the workflow `donation-<id>`. */
export const validateCharity = async (
  { charities }: { readonly charities: Charities },
  { provider, accountId, ...ids }: CharityLookup,
  signal: AbortSignal,
): Promise<CharityValidation> => {
  try {
    const found = await charities.named(provider, accountId).find(ids, signal);
    return { kind: "confirmed", charity: requireMatch(found, ids), provider };
  } catch (error) {
    if (error instanceof DomainError) {
      return { kind: "rejected", code: error.code, message: error.message };
    }
    const failure = error instanceof OutageError ? error.cause : error;
    if (failure instanceof CharityProviderError) {
      return { kind: "unavailable", reason: failure.message };
    }
    throw error;
  }
};
