import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Metadata } from "../../domain/registrations/registrations.ts";
import { sql } from "../sql.ts";

export type NewDonationRefund = {
  readonly donationId: string;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
  readonly metadata: Metadata;
  readonly createdAt: Date;
};

/**
 * Assigns an idempotency key to a donation unless it already belongs to one. Waits for a concurrent call with the key.
 * @returns the id of the donation that the key belongs to
 */
export const claimRefundKey = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  idempotencyKey: string,
  donationId: string,
): Promise<string> =>
  transaction.oneFirst(sql.type(z.strictObject({ donationId: z.uuid() }))`
    INSERT INTO donation_refund_key AS known (account_id, mode, idempotency_key, donation_id)
    VALUES (${accountId}, ${mode}, ${idempotencyKey}, ${donationId})
    -- The update changes nothing: it locks the row, and RETURNING needs it.
    ON CONFLICT (account_id, mode, idempotency_key) DO UPDATE SET donation_id = known.donation_id
    RETURNING donation_id AS "donationId"
  `);
