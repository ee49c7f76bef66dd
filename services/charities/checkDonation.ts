import type { DatabasePool } from "slonik";
import { deleteDonationRequest, findDonationRequest } from "../../db/charities/donationRequests.ts";
import type { Charity, CharityProviderName } from "../../domain/charities/charities.ts";
import type { DonationOutcome } from "../../domain/charities/donations.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import { CharityProviderError } from "../../providers/charities/provider.ts";
import { findCharity } from "./findCharity.ts";
import { requireDonationSubscription } from "./requireDonationSubscription.ts";

/** The charity that a donation may be recorded for, or why none may. */
export type CheckedDonation =
  | {
      readonly kind: "valid";
      readonly charity: Charity;
      readonly provider: CharityProviderName;
    }
  | Exclude<DonationOutcome, { readonly kind: "recorded" }>;

/**
 * Checks a waiting donation: its subscription where money is meant, and its charity. What is refused, or cannot be
 * checked, waits no longer.
 */
export const checkDonation = async (
  deps: {
    readonly db: DatabasePool;
    readonly billing: Billing;
    readonly charities: Charities;
  },
  id: string,
  signal: AbortSignal,
): Promise<CheckedDonation> => {
  const request = await findDonationRequest(deps.db, id);
  if (!request) {
    return { kind: "withdrawn" };
  }
  try {
    if (request.mode === "live") {
      await requireDonationSubscription(deps, request.accountId);
    }
    const { charity, provider } = await findCharity(deps, request, signal);
    return { kind: "valid", charity, provider };
  } catch (error) {
    if (error instanceof DomainError) {
      await deleteDonationRequest(deps.db, id);
      return { kind: "refused", code: error.code, message: error.message };
    }
    if (error instanceof CharityProviderError) {
      await deleteDonationRequest(deps.db, id);
      return { kind: "unchecked", reason: error.message };
    }
    throw error;
  }
};
