import type { CharityIds, ConfirmedCharity } from "./charities.rules.ts";
import { DomainError, OutageError } from "../../runtime/errors.rules.ts";
import { asRejection, outcomeOf } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { CharityProvider } from "./provider.ts";
import { confirmLocally, confirmRemotely, findLocalCharities } from "./confirmCharity.ts";
import { newId } from "../../runtime/newId.ts";
import { runConcurrently } from "../../runtime/runConcurrently.ts";
import type { CharityContext } from "./context.ts";

/** As many calls of a remote provider as single donations of a key may cause in a second. */
const MAXIMUM_VALIDATIONS = 20;

/** How many are open at a time. */
const CONCURRENT_VALIDATIONS = 5;

const unconfirmed = (why: string): DomainError =>
  new DomainError("charity_unconfirmed", `the charity is not confirmed: ${why}; try again`);

const NOT_REACHED = `a batch validates at most ${MAXIMUM_VALIDATIONS} new charities`;
const FAILED = "its provider could not validate it";

/** Returns a string that is the same for the same charity, named in the same way. */
export const charityKey = ({ ein, nonprofitId }: CharityIds): string =>
  JSON.stringify([ein, nonprofitId]);

/** Returns the outcomes of the given charities, and of those before, by `charityKey`. */
type ConfirmCharities = (
  charities: readonly CharityIds[],
) => Promise<ReadonlyMap<string, Outcome<ConfirmedCharity>>>;

/**
 * Creates a function that confirms the charities of one batch, each once, in as many calls as the batch needs. Those that
 * need a remote provider are validated in their order, up to a maximum for the batch; what is found is stored, so that
 * a repeated batch gets further. After a failure of the provider no more calls of it begin.
 * @returns a function that throws an OutageError if the catalogue fails
 */
export const createCharityConfirmer = (
  context: Pick<CharityContext, "validateCharity">,
  provider: CharityProvider,
  accountId: string,
): ConfirmCharities => {
  const outcomes = new Map<string, Outcome<ConfirmedCharity>>();
  let validations = 0;
  let hasFailed = false;

  const validate = async (key: string, ids: CharityIds): Promise<void> => {
    if (hasFailed) {
      outcomes.set(key, unconfirmed(FAILED));
      return;
    }
    try {
      const lookup = { ...ids, provider: provider.name, accountId };
      outcomes.set(key, await confirmRemotely(context, newId(), lookup));
    } catch (error) {
      if (error instanceof OutageError) {
        hasFailed = true;
        outcomes.set(key, unconfirmed(FAILED));
      } else {
        outcomes.set(key, asRejection(error));
      }
    }
  };

  return async (charities) => {
    const named = [...new Map(charities.map((ids) => [charityKey(ids), ids]))].filter(
      ([key]) => !outcomes.has(key),
    );
    if (named.length === 0) {
      return outcomes;
    }
    const found = await findLocalCharities(
      provider,
      named.map(([, ids]) => ids),
    );
    const remote = named.filter(([key, ids], index) => {
      const outcome = outcomeOf(() => confirmLocally(provider, found[index] ?? null, ids));
      if (outcome !== null) {
        outcomes.set(key, outcome);
      }
      return outcome === null;
    });
    const reached = remote.slice(0, MAXIMUM_VALIDATIONS - validations);
    validations += reached.length;
    await runConcurrently(reached, ([key, ids]) => validate(key, ids), {
      concurrency: CONCURRENT_VALIDATIONS,
    });
    for (const [key] of remote.slice(reached.length)) {
      outcomes.set(key, unconfirmed(hasFailed ? FAILED : NOT_REACHED));
    }
    return outcomes;
  };
};
