import { nameWords, parseEin } from "./charities.rules.ts";
import { codeOf, OutageError } from "../../runtime/errors.rules.ts";
import type { CharityPage, CharityQuery } from "./provider.ts";
import { CharityProviderError, NO_MATCHES } from "./provider.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { CharityContext } from "./context.ts";

/** Of a remote provider. The statements of the catalogue have a timeout of their own, and may wait for their turn. */
const TIMEOUT_MS = 5000;

/**
 * Searches with the account's provider. A name without letters and digits matches nothing; a name that is an EIN is
 * searched as one.
 * @throws DomainError charity_unconfirmed if the account calls the provider too often
 * @throws OutageError if the provider fails
 */
export const searchCharities = async (
  context: Pick<CharityContext, "db" | "charities">,
  accountId: string,
  query: CharityQuery,
): Promise<CharityPage> => {
  const given = query.name?.trim() || null;
  const namedEin = given === null ? null : parseEin(given);
  const ein = query.ein ?? namedEin;
  const isNothing = given !== null && nameWords(given).phrase === "";
  if (isNothing || (namedEin !== null && namedEin !== ein)) {
    return NO_MATCHES;
  }
  const { charityProvider } = await getAccount(context.db, accountId);
  const provider = context.charities.named(charityProvider, accountId);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await provider.search({ ...query, name: namedEin === null ? given : null, ein }, signal);
  } catch (error) {
    if (error instanceof CharityProviderError || codeOf(error) === "query_timeout") {
      throw new OutageError("charity search failed", { cause: error });
    }
    throw error;
  }
};
