import { insertBalanceEntry } from "./balances.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { EIN_MUST_BE, parseEin } from "../charities/charities.rules.ts";
import type { DonationCustomer } from "../charities/donations.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { confirmCharity } from "../charities/confirmCharity.ts";
import { providerOf } from "../charities/createCharities.ts";
import { createDonation } from "../charities/donate.ts";
import { insertDonations } from "../charities/donationBatches.sql.ts";
import type { CharityContext } from "../charities/context.ts";
import { reportLowBalance } from "./lockBalance.ts";
import type { StoreContext } from "./context.ts";
import { findEarlierResponse, runIdempotentWrite } from "./runIdempotentWrite.ts";
import { newId } from "../../runtime/newId.ts";

/**
 * Records a store's donation once its charity is confirmed, and pays for it from the balance.
 * @param charityId the charity's id at the provider, or its EIN with or without the dash
 * @throws DomainError charity_not_found, balance_insufficient, charity_unconfirmed, or request_invalid if the idempotency key was
 *   used for another request
 * @throws OutageError if the charity cannot be validated
 */
export const donateFromStore = async (
  context: StoreContext & CharityContext,
  write: StoreWrite,
  {
    charityId,
    amountCents,
    ...customer
  }: DonationCustomer & {
    readonly charityId: string;
    readonly amountCents: number;
  },
): Promise<StoreResponse> => {
  // A replay does not depend on the charity's provider.
  const earlier = await findEarlierResponse(context.db, write);
  if (earlier) {
    return earlier;
  }
  const id = newId();
  const ein = parseEin(charityId);
  const confirmed = await confirmCharity(
    context,
    await providerOf(context, write.accountId),
    { id, accountId: write.accountId },
    ein === null ? { ein, nonprofitId: charityId } : { ein, nonprofitId: null },
  ).catch((error: unknown) => {
    throw error instanceof DomainError && error.code === "charity_not_found"
      ? new DomainError(
          error.code,
          `no charity found for the charity_id ${charityId}${ein === null ? `; an EIN ${EIN_MUST_BE}` : ""}`,
          { cause: error },
        )
      : error;
  });
  const costCents = write.mode === "live" ? amountCents : 0;
  return runIdempotentWrite(
    context,
    write,
    { recordId: id, costCents },
    async (transaction, before, now, createdAt) => {
      const donation = createDonation(
        {
          id,
          amountCents,
          charityName: null,
          idempotencyKey: null,
          attribution: "",
          metadata: {},
        },
        confirmed,
        customer,
      );
      await insertDonations(transaction, write, [donation], createdAt, []);
      if (costCents > 0) {
        const balanceCents = before.balanceCents - costCents;
        await insertBalanceEntry(transaction, {
          createdAt,
          accountId: write.accountId,
          kind: "donation",
          amountCents: -costCents,
          balanceCents,
          donationId: id,
          note: donation.charityName,
        });
        await reportLowBalance(transaction, before, { balanceCents }, now);
      }
    },
  );
};
