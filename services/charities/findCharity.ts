import type { CommonQueryMethods } from "slonik";
import type { Charity, CharityIds } from "../../domain/charities/charities.ts";
import { formatEin } from "../../domain/charities/charities.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import type { CharityProvider } from "../../providers/charities/provider.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** The provider that an account's operator has chosen. */
export const providerOf = async (
  { db, charities }: { readonly db: CommonQueryMethods; readonly charities: Charities },
  accountId: string,
): Promise<CharityProvider> => {
  const { charityProvider } = await getAccount(db, accountId);
  return charities.named(charityProvider);
};

const lookUp = async (
  provider: CharityProvider,
  { ein, nonprofitId }: CharityIds,
  signal: AbortSignal,
): Promise<Charity> => {
  if (nonprofitId !== null) {
    const charity = await provider.findById(nonprofitId, signal);
    if (!charity) {
      throw new DomainError(
        "charity_not_found",
        `no charity found for the nonprofit_id ${nonprofitId}`,
      );
    }
    return charity;
  }
  const charity = await provider.findByEin(ein, signal);
  if (!charity) {
    throw new DomainError("charity_not_found", `no charity found for the ein ${formatEin(ein)}`);
  }
  return charity;
};

/**
 * Checks a charity with the account's provider. What is given of both ids must name the same charity.
 * @throws DomainError charity_not_found, or request_invalid when the ids disagree
 * @throws CharityProviderError when the provider cannot answer
 */
export const findCharity = async (
  deps: { readonly db: CommonQueryMethods; readonly charities: Charities },
  asked: { readonly accountId: string } & CharityIds,
  signal: AbortSignal,
): Promise<{ readonly charity: Charity; readonly provider: CharityProvider["name"] }> => {
  const { accountId, ein } = asked;
  const provider = await providerOf(deps, accountId);
  const charity = await lookUp(provider, asked, signal);
  if (ein !== null && charity.ein !== ein) {
    throw new DomainError(
      "request_invalid",
      `ein and nonprofit_id do not agree: ${charity.nonprofitId} is ${charity.ein === null ? "a charity without an EIN" : formatEin(charity.ein)}`,
    );
  }
  return { charity, provider: provider.name };
};
