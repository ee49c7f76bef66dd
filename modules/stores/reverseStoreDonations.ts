import { lockNewestDonations } from "./storeDonations.sql.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { recordDonationRefunds } from "../charities/refundDonation.ts";
import type { StoreContext } from "./context.ts";
import { runIdempotentWrite } from "./runIdempotentWrite.ts";
import { tooFewLeft } from "./tooFewLeft.ts";

/** Limits the size of the transaction; larger reversals need several calls. */
export const MAXIMUM_DONATIONS = 1000;

/**
 * Marks donations of a store as refunded, newest first. The balance stays, since the charity has the money.
 * @throws DomainError request_invalid if fewer donations match
 */
export const reverseStoreDonations = (
  context: StoreContext,
  write: StoreWrite,
  reversal: {
    readonly quantity: number;
    readonly filter: ImpactFilter;
    readonly reason: string | null;
  },
): Promise<StoreResponse> =>
  runIdempotentWrite(
    context,
    write,
    { recordId: null, costCents: 0 },
    async (transaction, _balance, now) => {
      const { quantity, filter, reason } = reversal;
      const owner = { accountId: write.accountId, mode: write.mode };
      if (quantity > MAXIMUM_DONATIONS) {
        throw invalidRequest(
          `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
        );
      }
      const found = await lockNewestDonations(transaction, owner, filter, quantity);
      if (found.length < quantity) {
        throw tooFewLeft(found.length, "donation");
      }
      const request = { reason, idempotencyKey: null, metadata: {} };
      await recordDonationRefunds(
        transaction,
        owner,
        found.map((donation) => ({ donation, request })),
        now,
      );
    },
  );
