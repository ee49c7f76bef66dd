import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Metadata } from "../../domain/registrations/registrations.ts";
import { sql } from "../sql.ts";

/**
 * Records the refund of a donation, which must be under its lock.
 * @returns false when the donation or the idempotency key has one, and nothing was done
 */
export const insertDonationRefund = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  refund: {
    readonly donationId: string;
    readonly reason: string | null;
    readonly idempotencyKey: string | null;
    readonly metadata: Metadata;
    readonly createdAt: Date;
  },
): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.typeAlias("void")`
    INSERT INTO donation_refund (donation_id, account_id, mode, reason, idempotency_key, metadata, created_at)
    VALUES (
      ${refund.donationId}, ${owner.accountId}, ${owner.mode}, ${refund.reason}, ${refund.idempotencyKey},
      ${JSON.stringify(refund.metadata)}::jsonb, ${refund.createdAt.toISOString()}
    )
    ON CONFLICT DO NOTHING
  `);
  return rowCount === 1;
};

/**
 * Keeps a donation for an idempotency key, in the transaction of its refund.
 * @returns the donation that the key stands for: this one, or the one that it was given with first
 */
export const keepRefundKey = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  idempotencyKey: string,
  donationId: string,
): Promise<string> =>
  transaction.oneFirst(sql.type(z.strictObject({ donationId: z.uuid() }))`
    INSERT INTO donation_refund_key AS known (account_id, mode, idempotency_key, donation_id)
    VALUES (${accountId}, ${mode}, ${idempotencyKey}, ${donationId})
    -- Changes nothing; a concurrent call with the key is waited for.
    ON CONFLICT (account_id, mode, idempotency_key) DO UPDATE SET donation_id = known.donation_id
    RETURNING donation_id AS "donationId"
  `);
