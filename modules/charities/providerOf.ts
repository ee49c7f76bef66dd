import type { CharityProvider } from "./provider.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { CharityContext } from "./context.ts";

/** Returns the charity provider that an operator has chosen for an account. */
export const providerOf = async (
  { db, charities }: Pick<CharityContext, "db" | "charities">,
  accountId: string,
): Promise<CharityProvider> => {
  const { charityProvider } = await getAccount(db, accountId);
  return charities.named(charityProvider, accountId);
};
