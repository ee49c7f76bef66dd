import type { CommonQueryMethods } from "slonik";
import type { Charities } from "../../providers/charities/createCharities.ts";
import type { CharityProvider } from "../../providers/charities/provider.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** Returns the charity provider that an operator has chosen for an account. */
export const providerOf = async (
  { db, charities }: { readonly db: CommonQueryMethods; readonly charities: Charities },
  accountId: string,
): Promise<CharityProvider> => {
  const { charityProvider } = await getAccount(db, accountId);
  return charities.named(charityProvider, accountId);
};
