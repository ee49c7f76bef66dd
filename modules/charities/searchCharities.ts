import type { DatabasePool } from "slonik";
import type { Ein } from "./charities.rules.ts";
import { nameWords, parseEin } from "./charities.rules.ts";
import { OutageError } from "../../runtime/errors.rules.ts";
import { TimeoutError, withTimeout } from "../../runtime/waiting.ts";
import { isTimeout } from "../../db/databaseErrors.ts";
import { createCatalogue } from "./createCatalogue.ts";
import type { CharityPage } from "./provider.ts";
import { CharityProviderError, NO_MATCHES } from "./provider.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { CharityContext } from "./context.ts";

/** The catalogue cannot abort a query on a signal, so its statement timeout is a little longer. */
const CLIENT_TIMEOUT_MS = 5000;
/** An operator may wait longer than a client. */
const OPERATOR_TIMEOUT_MS = 60_000;

/**
 * Searches with the account's provider. A name without letters and digits matches nothing; a name that is an EIN is
 * searched as one.
 * @throws DomainError charity_unconfirmed if the account calls the provider too often
 * @throws OutageError if the provider fails
 */
export const searchCharities = async (
  context: Pick<CharityContext, "db" | "charities">,
  accountId: string,
  query: {
    readonly name: string | null;
    readonly ein: Ein | null;
    readonly page: number;
    readonly pageSize: number;
  },
): Promise<CharityPage> => {
  const given = query.name?.trim() || null;
  const namedEin = given === null ? null : parseEin(given);
  const ein = query.ein ?? namedEin;
  const isNothing = given !== null && nameWords(given).phrase === "";
  if (isNothing || (namedEin !== null && namedEin !== ein)) {
    return NO_MATCHES;
  }
  const name = namedEin === null ? given : null;
  const { charityProvider } = await getAccount(context.db, accountId);
  const provider = context.charities.named(charityProvider, accountId);
  const signal = AbortSignal.timeout(CLIENT_TIMEOUT_MS);
  try {
    const { page, pageSize } = query;
    return await withTimeout(signal, provider.search({ name, ein, page, pageSize }, signal));
  } catch (error) {
    if (
      error instanceof CharityProviderError ||
      error instanceof TimeoutError ||
      isTimeout(error)
    ) {
      throw new OutageError("charity search failed", { cause: error });
    }
    throw error;
  }
};

/**
 * Searches the built-in catalogue by name for an operator.
 * @throws TimeoutError if no connection becomes free in time
 */
export const searchForOperator = (
  { db }: { readonly db: DatabasePool },
  name: string,
  { page, pageSize }: { readonly page: number; readonly pageSize: number },
): Promise<CharityPage> =>
  createCatalogue({ db, searches: db }).search(
    { name, ein: null, page, pageSize },
    AbortSignal.timeout(OPERATOR_TIMEOUT_MS),
  );
