import { EIN_MUST_BE, parseEin } from "../charities/charities.rules.ts";
import type { ConfirmedCharity } from "../charities/charities.rules.ts";
import { confirmCharity } from "../charities/confirmCharity.ts";
import type { CharityContext } from "../charities/context.ts";
import type { CustomerDetails } from "./customers.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { writePrepared } from "./createStoreWriter.ts";
import type { StoreContext } from "./createStoreWriter.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";

/**
 * Records a store's donation once its charity is confirmed, and pays for it from the balance.
 * @param charityId the charity's id at the provider, or its EIN with or without the dash
 * @throws DomainError feature_disabled, charity_not_found, balance_insufficient, charity_unconfirmed, queue_full, or
 *   request_invalid if the idempotency key was used for another request
 * @throws OutageError if the charity cannot be validated
 */
export const donateFromStore = async (
  context: StoreContext & CharityContext,
  write: StoreWrite,
  {
    charityId,
    amountCents,
    ...customer
  }: CustomerDetails & { readonly charityId: string; readonly amountCents: number },
): Promise<StoreResponse> =>
  writePrepared(context, write, async ({ id: accountId, charityProvider }) => {
    const recordId = newId();
    const ein = parseEin(charityId);
    const charity = await confirmCharity(
      context,
      context.charities.named(charityProvider, accountId),
      { id: recordId, accountId },
      ein === null ? { ein, nonprofitId: charityId } : { ein, nonprofitId: null },
    ).catch((error: unknown): ConfirmedCharity => {
      throw error instanceof DomainError && error.code === "charity_not_found"
        ? new DomainError(
            error.code,
            `no charity found for the charity_id ${charityId}${ein === null ? `; an EIN ${EIN_MUST_BE}` : ""}`,
            { cause: error },
          )
        : error;
    });
    return { ...write, ...customer, kind: "donation", amountCents, charity, recordId };
  });
