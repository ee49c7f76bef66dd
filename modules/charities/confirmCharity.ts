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
import { asRejection, outcomeOf, resultOfOne } from "../records/batches.rules.ts";
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
      `ein and nonprofit_id do not agree: ${charity.nonprofitId} is ${charity.ein === null ? "a charity without an EIN" : formatEin(charity.ein)}`,
    );
  }
  return charity;
};

const searchFailed = (cause: unknown): OutageError =>
  new OutageError("charity search failed", { cause });

/**
 * Finds charities in the built-in catalogue or among the stored details, in the order of their ids, by one query. Missing ones
 * are null.
 * @throws OutageError
 */
const findLocalCharities = async (
  { local }: CharityProvider,
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
const confirmLocally = (
  { local, name }: CharityProvider,
  charity: Charity | null,
  ids: CharityIds,
): ConfirmedCharity | null =>
  charity || local.isComplete ? { charity: requireMatch(charity, ids), provider: name } : null;

/**
 * Validates a charity with its remote provider, by a workflow.
 * @throws DomainError charity_not_found, request_invalid if the ids disagree, or charity_unconfirmed if the account calls the
 *   provider too often
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
const confirmByWorkflow = async (
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
    const [found = null] = await findLocalCharities(provider, [ids]);
    const confirmed = confirmLocally(provider, found, ids);
    if (confirmed) {
      return confirmed;
    }
  }
};

/** A donation whose charity is to be confirmed. */
type Donation = { readonly id: string; readonly charity: CharityIds };

/**
 * Confirms a charity by its remote provider. The workflow that validates it stores its details some milliseconds before
 * Temporal returns the result, so the details are read meanwhile.
 * @throws as `confirmByWorkflow`
 */
const confirmRemotely = async (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  accountId: string,
  { id, charity }: Donation,
): Promise<ConfirmedCharity> => {
  const confirmed = new AbortController();
  try {
    return await Promise.race([
      confirmByWorkflow(context, id, { ...charity, provider: provider.name, accountId }),
      awaitLocalCharity(provider, charity, confirmed.signal),
    ]);
  } finally {
    confirmed.abort();
  }
};

/** As many calls of a remote provider as single donations of a key may cause in a second. */
const MAXIMUM_VALIDATIONS = 20;

/** How many are open at a time. */
const CONCURRENT_VALIDATIONS = 5;

const unconfirmed = (why: string, cause?: unknown): DomainError =>
  new DomainError("charity_unconfirmed", `the charity is not confirmed: ${why}; try again`, {
    cause,
  });

const failed = (outage: OutageError): DomainError =>
  unconfirmed("its provider could not validate it", outage);

/** Returns a string that is the same for the same charity, named in the same way. */
export const charityKey = ({ ein, nonprofitId }: CharityIds): string =>
  JSON.stringify([ein, nonprofitId]);

/** Confirmed charities and why others are not, by `charityKey`. */
export type CharityOutcomes = ReadonlyMap<string, Outcome<ConfirmedCharity>>;

/**
 * Creates a function that confirms the charities of one batch of donations, each once, in as many calls as the batch needs.
 * Those that need a remote provider are validated in their order, up to a maximum for the batch; what is found is stored, so
 * that a repeated batch gets further. After an outage no more calls of the provider begin, and the outage is the cause of what
 * is unconfirmed.
 * @param provider the account's
 * @returns a function that returns the outcomes of all its calls, and throws an OutageError if the catalogue fails
 */
export const createCharityConfirmer = (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  accountId: string,
): ((donations: readonly Donation[]) => Promise<CharityOutcomes>) => {
  const outcomes = new Map<string, Outcome<ConfirmedCharity>>();
  let validations = 0;
  let outage: OutageError | null = null;

  const validate = async (donation: Donation): Promise<Outcome<ConfirmedCharity>> => {
    if (outage) {
      return failed(outage);
    }
    if (validations === MAXIMUM_VALIDATIONS) {
      return unconfirmed(`a batch validates at most ${MAXIMUM_VALIDATIONS} new charities`);
    }
    validations += 1;
    try {
      return await confirmRemotely(context, provider, accountId, donation);
    } catch (error) {
      if (error instanceof OutageError) {
        outage = error;
        return failed(error);
      }
      return asRejection(error);
    }
  };

  return async (donations) => {
    const wanted = [
      ...new Map(donations.map((donation) => [charityKey(donation.charity), donation])),
    ].filter(([key]) => !outcomes.has(key));
    if (wanted.length === 0) {
      return outcomes;
    }
    const found = await findLocalCharities(
      provider,
      wanted.map(([, { charity }]) => charity),
    );
    const remote = wanted.filter(([key, { charity }], index) => {
      const outcome = outcomeOf(() => confirmLocally(provider, found[index] ?? null, charity));
      if (outcome !== null) {
        outcomes.set(key, outcome);
      }
      return outcome === null;
    });
    await runConcurrently(
      remote,
      async ([key, donation]) => {
        outcomes.set(key, await validate(donation));
      },
      { concurrency: CONCURRENT_VALIDATIONS },
    );
    return outcomes;
  };
};

/**
 * Confirms the charity of a donation.
 * @param provider the account's
 * @throws DomainError charity_not_found, request_invalid if the ids disagree, or charity_unconfirmed if the account calls the
 *   provider too often
 * @throws OutageError if the provider, or the workflow that calls it, fails
 */
export const confirmCharity = async (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  { id, accountId }: { readonly id: string; readonly accountId: string },
  charity: CharityIds,
): Promise<ConfirmedCharity> => {
  const confirm = createCharityConfirmer(context, provider, accountId);
  return resultOfOne([...(await confirm([{ id, charity }])).values()]);
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
