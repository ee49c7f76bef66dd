import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { DonationOwner } from "../domain/donations.ts";
import type { Metadata } from "../domain/registrations.ts";
import { sql } from "./sql.ts";

/**
 * Records the refund of a donation, which must be under its lock.
 * @returns false when the donation or the idempotency key has one, and nothing was done
 */
export const insertDonationRefund = async (
  transaction: DatabaseTransactionConnection,
  owner: DonationOwner,
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

/** The donation whose refund an idempotency key stands for. */
export const findRefundedDonationId = (
  db: CommonQueryMethods,
  { accountId, mode }: DonationOwner,
  idempotencyKey: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.type(z.strictObject({ donationId: z.uuid() }))`
    SELECT donation_id AS "donationId"
    FROM donation_refund
    WHERE account_id = ${accountId} AND mode = ${mode} AND idempotency_key = ${idempotencyKey}
  `);
