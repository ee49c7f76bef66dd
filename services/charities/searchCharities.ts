import type { DatabasePool } from "slonik";
import {
  isTooShort,
  MINIMUM_SEARCH_LENGTH,
  readSearchName,
} from "../../domain/charities/charitySearch.ts";
import { parseEin } from "../../domain/charities/charities.ts";
import { DomainError, OutageError } from "../../domain/errors.ts";
import { TimeoutError, withTimeout } from "../../domain/withTimeout.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import type { CharityPage } from "../../providers/charities/provider.ts";
import { CharityProviderError } from "../../providers/charities/provider.ts";
import { providerOf } from "./providerOf.ts";

/** Also what the built-in catalogue may take, whose queries end a little later: they know no signal. */
const ANSWER_WITHIN_MS = 5000;

const NOTHING: CharityPage = { items: [], totalItems: 0, totalIsExact: true };

/**
 * Searches with the account's provider. What is no EIN finds nothing; a name that is one is searched for as one.
 * @throws DomainError request_invalid for a name of fewer than three letters and digits
 * @throws OutageError when the provider cannot answer
 */
export const searchCharities = async (
  deps: { readonly db: DatabasePool; readonly charities: Charities },
  accountId: string,
  query: {
    readonly name: string | null;
    readonly ein: string | null;
    readonly page: number;
    readonly pageSize: number;
  },
): Promise<CharityPage> => {
  const name = query.name?.trim() || null;
  const named = readSearchName(name);
  if (name !== null && isTooShort(name)) {
    throw new DomainError(
      "request_invalid",
      `name: must have at least ${MINIMUM_SEARCH_LENGTH} letters or digits`,
    );
  }
  const writtenEin = query.ein?.trim() || null;
  const ein = writtenEin === null ? named.ein : parseEin(writtenEin);
  if ((writtenEin !== null && ein === null) || (named.ein !== null && named.ein !== ein)) {
    return NOTHING;
  }
  const provider = await providerOf(deps, accountId);
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  try {
    const { page, pageSize } = query;
    return await withTimeout(
      signal,
      provider.search({ name: named.name, ein, page, pageSize }, signal),
    );
  } catch (error) {
    if (error instanceof CharityProviderError || error instanceof TimeoutError) {
      throw new OutageError("charity search failed", { cause: error });
    }
    throw error;
  }
};
