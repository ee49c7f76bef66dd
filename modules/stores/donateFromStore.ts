import { EIN_MUST_BE, parseEin } from "../charities/charities.rules.ts";
import { confirmCharities } from "../charities/confirmCharities.ts";
import type { CharityContext } from "../charities/context.ts";
import type { CustomerDetails } from "./customers.rules.ts";
import { resultOfOne } from "../records/batches.rules.ts";
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
    const ids = ein === null ? { ein, nonprofitId: charityId } : { ein, nonprofitId: null };
    const provider = context.charities.named(charityProvider, accountId);
    const donation = { id: recordId, charity: ids };
    const outcomes = await confirmCharities(context, provider, accountId, [donation]);
    const [outcome] = outcomes.values();
    if (outcome instanceof DomainError && outcome.code === "charity_not_found") {
      const hint = ein === null ? `; an EIN ${EIN_MUST_BE}` : "";
      const message = `no charity found for the charity_id ${charityId}${hint}`;
      throw new DomainError(outcome.code, message, { cause: outcome });
    }
    const charity = resultOfOne([...outcomes.values()]);
    return { ...write, ...customer, kind: "donation", amountCents, charity, recordId };
  });
