import { v7 as newId } from "uuid";
import { insertBalanceEntries } from "../../db/stores/balances.ts";
import { setDonationCustomer } from "../../db/stores/storeDonations.ts";
import { parseEin } from "../../domain/charities/charities.ts";
import type { CustomerDetails } from "../../domain/stores/customers.ts";
import { balanceInsufficient } from "../../domain/stores/stores.ts";
import type { StoreResponse, StoreWrite } from "../../domain/stores/storeWrites.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import { bookDonation } from "../charities/bookDonation.ts";
import { findCharity } from "../charities/findCharity.ts";
import type { StoreWriteDependencies } from "./runIdempotentWrite.ts";
import { findEarlierResponse, runIdempotentWrite } from "./runIdempotentWrite.ts";

/** Somebody waits for the answer. */
const CHARITY_TIMEOUT_MS = 10_000;

/**
 * Records a donation of a store to a charity that exists, and pays for it from the balance.
 * @param charityId the charity's id at the provider, or its EIN with or without the dash
 * @throws DomainError charity_not_found, balance_insufficient, or request_invalid when something else was asked for
 *   under the idempotency key
 * @throws CharityProviderError when the provider cannot answer
 */
export const donateFromStore = async (
  deps: StoreWriteDependencies & { readonly charities: Charities },
  write: StoreWrite,
  donation: Omit<CustomerDetails, "notes"> & {
    readonly charityId: string;
    readonly amountCents: number;
  },
): Promise<StoreResponse> => {
  // A repeat is answered however the charity's provider is doing.
  const earlier = await findEarlierResponse(deps.db, write);
  if (earlier) {
    return earlier;
  }
  const { charityId } = donation;
  const ein = parseEin(charityId);
  const ids = ein === null ? { ein, nonprofitId: charityId } : { ein, nonprofitId: null };
  const { charity, provider } = await findCharity(
    deps,
    { accountId: write.accountId, ...ids },
    AbortSignal.timeout(CHARITY_TIMEOUT_MS),
  );
  return runIdempotentWrite(deps, write, async (transaction, { balanceCents }, now) => {
    const { amountCents } = donation;
    const isPaid = write.mode === "live";
    if (isPaid && amountCents > balanceCents) {
      throw balanceInsufficient(amountCents, balanceCents);
    }
    const id = newId();
    const donated = {
      id,
      amountCents,
      ein: charity.ein,
      nonprofitId: charity.nonprofitId,
      charityProvider: provider,
      charityName: charity.name,
      createdAt: now,
      idempotencyKey: null,
      attribution: "",
      metadata: {},
      refunded: false,
    };
    if (!(await bookDonation(transaction, write, donated))) {
      throw new Error(`The donation ${id} is new, yet it is on record.`);
    }
    await setDonationCustomer(transaction, id, donation);
    if (isPaid) {
      await insertBalanceEntries(
        transaction,
        [
          {
            accountId: write.accountId,
            kind: "donation",
            amountCents: -amountCents,
            balanceCents: balanceCents - amountCents,
            quantity: null,
            registrationId: null,
            donationId: id,
            reference: null,
            note: charity.name,
          },
        ],
        now,
      );
    }
  });
};
