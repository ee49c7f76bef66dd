import type { CommonQueryMethods } from "slonik";
import type {
  Charity,
  CharityIds,
  CharityLookup,
  CharityValidation,
  ConfirmedCharity,
  Ein,
} from "../../domain/charities/charities.ts";
import { formatEin } from "../../domain/charities/charities.ts";
import { DomainError, OutageError } from "../../domain/errors.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import { CharityProviderError } from "../../providers/charities/provider.ts";
import { providerOf } from "./providerOf.ts";

/**
 * Validates the charity of a donation with its remote provider, durably, in the workflow `donation-<id>`.
 * @throws if there is no result in time
 */
export type ValidateCharity = (
  donationId: string,
  lookup: CharityLookup,
) => Promise<CharityValidation>;

export type ConfirmCharityDependencies = {
  readonly db: CommonQueryMethods;
  readonly charities: Charities;
  readonly validateCharity: ValidateCharity;
};

const find = (
  source: {
    readonly findByEin: (ein: Ein) => Promise<Charity | null>;
    readonly findById: (nonprofitId: string) => Promise<Charity | null>;
  },
  { ein, nonprofitId }: CharityIds,
): Promise<Charity | null> =>
  nonprofitId === null ? source.findByEin(ein) : source.findById(nonprofitId);

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
    throw new DomainError(
      "request_invalid",
      `ein and nonprofit_id do not agree: ${charity.nonprofitId} is ${charity.ein === null ? "a charity without an EIN" : formatEin(charity.ein)}`,
    );
  }
  return charity;
};

const searchFailed = (cause: unknown): OutageError =>
  new OutageError("charity search failed", { cause });

/**
 * Confirms the charity of a donation with the account's provider. The built-in catalogue and stored details need only the
 * database; a remote provider's charity without stored details is validated by a workflow.
 * @throws DomainError charity_not_found, or request_invalid if the ids disagree
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
export const confirmCharity = async (
  deps: ConfirmCharityDependencies,
  accountId: string,
  donationId: string,
  ids: CharityIds,
): Promise<ConfirmedCharity> => {
  const provider = await providerOf(deps, accountId);
  try {
    const charity = await find(provider.local, ids);
    if (charity || provider.local.isComplete) {
      return { charity: requireMatch(charity, ids), provider: provider.name };
    }
  } catch (error) {
    throw error instanceof CharityProviderError ? searchFailed(error) : error;
  }
  const validation = await deps
    .validateCharity(donationId, { ...ids, provider: provider.name })
    .catch((error: unknown) => {
      throw new OutageError("the charity could not be validated in time; nothing was recorded", {
        cause: error,
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

/** Validates a charity by calling its provider; the activity of the workflow `donation-<id>`. */
export const validateCharity = async (
  { charities }: { readonly charities: Charities },
  { provider: name, ...ids }: CharityLookup,
  signal: AbortSignal,
): Promise<CharityValidation> => {
  const provider = charities.named(name);
  try {
    const charity = await find(
      {
        findByEin: (ein) => provider.findByEin(ein, signal),
        findById: (nonprofitId) => provider.findById(nonprofitId, signal),
      },
      ids,
    );
    return { kind: "confirmed", charity: requireMatch(charity, ids), provider: name };
  } catch (error) {
    if (error instanceof DomainError) {
      return { kind: "rejected", code: error.code, message: error.message };
    }
    if (error instanceof CharityProviderError) {
      return { kind: "unavailable", reason: error.message };
    }
    throw error;
  }
};
