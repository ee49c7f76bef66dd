import { setTimeout as sleep } from "node:timers/promises";
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
      `ein and nonprofit_id do not agree: ${charity.nonprofitId} is ${charity.ein === null ? "a charity without an EIN" : formatEin(charity.ein)}`,
    );
  }
  return charity;
};

const searchFailed = (cause: unknown): OutageError =>
  new OutageError("charity search failed", { cause });

/**
 * Finds charities in the built-in catalogue or among the stored details, in the order of their ids; that needs one query of
 * the database. Missing ones are null.
 * @throws OutageError
 */
export const findLocalCharities = async (
  { local }: Pick<CharityProvider, "local">,
  ids: readonly CharityIds[],
): Promise<readonly (Charity | null)[]> => {
  try {
    return await local.find(ids);
  } catch (error) {
    throw error instanceof CharityProviderError ? searchFailed(error) : error;
  }
};

/**
 * Confirms a charity that was found locally, or not.
 * @returns null if only the provider knows
 * @throws DomainError charity_not_found, or request_invalid if the ids disagree
 */
export const confirmLocally = (
  { local, name }: Pick<CharityProvider, "local" | "name">,
  charity: Charity | null,
  ids: CharityIds,
): ConfirmedCharity | null =>
  charity || local.isComplete ? { charity: requireMatch(charity, ids), provider: name } : null;

const findLocalCharity = async (
  provider: CharityProvider,
  ids: CharityIds,
): Promise<ConfirmedCharity | null> => {
  const [charity = null] = await findLocalCharities(provider, [ids]);
  return confirmLocally(provider, charity, ids);
};

/**
 * Validates a charity with its remote provider, by a workflow.
 * @throws DomainError charity_not_found, request_invalid if the ids disagree, or charity_unconfirmed if the account calls the
 *   provider too often
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
export const confirmRemotely = async (
  context: Pick<CharityContext, "validateCharity">,
  donationId: string,
  lookup: CharityLookup,
): Promise<ConfirmedCharity> => {
  const validation = await context.validateCharity(donationId, lookup).catch((error: unknown) => {
    throw new OutageError("the charity could not be validated in time; nothing was recorded", {
      cause: error,
    });
  });
  if (validation.kind === "rejected") {
    const { code, message, retryAfterSeconds = null } = validation;
    throw new DomainError(code, message, { retryAfterSeconds });
  }
  if (validation.kind === "unavailable") {
    throw searchFailed(new Error(validation.reason));
  }
  return validation;
};

/** How often stored details are read while a workflow validates a charity: at first often, because a client waits. */
const READ_INTERVAL_MS = 5;
const LATER_READ_INTERVAL_MS = 50;
const LATER_AFTER_MS = 100;

/** Returns a charity once its details are stored. */
const awaitLocalCharity = async (
  provider: CharityProvider,
  ids: CharityIds,
  signal: AbortSignal,
): Promise<ConfirmedCharity> => {
  const startedAtMs = performance.now();
  for (;;) {
    const isLater = performance.now() - startedAtMs > LATER_AFTER_MS;
    await sleep(isLater ? LATER_READ_INTERVAL_MS : READ_INTERVAL_MS, undefined, { signal });
    const found = await findLocalCharity(provider, ids);
    if (found) {
      return found;
    }
  }
};

/**
 * Confirms the charity of a donation. A workflow that validates it stores its details some milliseconds before Temporal
 * returns the result, so the details are read meanwhile.
 * @param provider the account's
 * @throws DomainError charity_not_found, request_invalid if the ids disagree, or charity_unconfirmed if the account calls the
 *   provider too often
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
export const confirmCharity = async (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  donation: { readonly id: string; readonly accountId: string },
  ids: CharityIds,
): Promise<ConfirmedCharity> => {
  const known = await findLocalCharity(provider, ids);
  if (known) {
    return known;
  }
  const confirmed = new AbortController();
  try {
    return await Promise.race([
      confirmRemotely(context, donation.id, {
        ...ids,
        provider: provider.name,
        accountId: donation.accountId,
      }),
      awaitLocalCharity(provider, ids, confirmed.signal),
    ]);
  } finally {
    confirmed.abort();
  }
};

/** Validates a charity by calling its provider; the activity of the workflow `donation-<id>`. */
export const validateCharity = async (
  { charities }: { readonly charities: Charities },
  { provider: name, accountId, ...ids }: CharityLookup,
  signal: AbortSignal,
): Promise<CharityValidation> => {
  const provider = charities.named(name, accountId);
  try {
    const charity =
      ids.nonprofitId === null
        ? await provider.findByEin(ids.ein, signal)
        : await provider.findById(ids.nonprofitId, signal);
    return { kind: "confirmed", charity: requireMatch(charity, ids), provider: name };
  } catch (error) {
    if (error instanceof DomainError) {
      const { code, message, retryAfterSeconds } = error;
      return {
        kind: "rejected",
        code,
        message,
        ...(retryAfterSeconds === null ? {} : { retryAfterSeconds }),
      };
    }
    if (error instanceof CharityProviderError) {
      return { kind: "unavailable", reason: error.message };
    }
    throw error;
  }
};
