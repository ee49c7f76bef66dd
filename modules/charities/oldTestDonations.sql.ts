import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { deleteCertificatesOf } from "../records/deleteCertificatesOf.sql.ts";
import { startingAt } from "../../db/batching/deleteInBatches.ts";

const accountIdRow = z.strictObject({ accountId: z.uuid() });

/** Lists the accounts that have ever made a donation in test mode. */
export const listTestDonors = (db: CommonQueryMethods): Promise<readonly string[]> =>
  db.anyFirst(sql.type(accountIdRow)`
    SELECT account_id AS "accountId"
    FROM donation_total
    WHERE mode = 'test' AND period = 'all'
    ORDER BY account_id
  `);

const lockedRow = z.strictObject({
  id: z.uuid(),
  createdAt: z.date(),
  amountCents: safeInteger,
  refunded: z.boolean(),
});
export type OldDonation = Readonly<z.output<typeof lockedRow>>;

/**
 * Locks an account's oldest test donations before a time, without those that another transaction has locked.
 * @param from where an earlier batch ended; null for the first
 */
export const lockOldTestDonations = (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<readonly OldDonation[]> =>
  transaction.any(sql.type(lockedRow)`
    SELECT
      id,
      created_at AS "createdAt",
      amount_cents AS "amountCents",
      refunded
    FROM donation
    WHERE account_id = ${accountId} AND mode = 'test'
      AND created_at >= ${startingAt(from)} AND created_at < ${timestamp(before)}
    ORDER BY created_at, id
    LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  `);

/** Deletes donations with their refunds and the keys of these. */
export const deleteDonations = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<void> => {
  for (const table of ["donation_refund_key", "donation_refund"]) {
    await transaction.query(sql.typeAlias("void")`
      DELETE FROM ${sql.identifier([table])} WHERE donation_id = ANY(${sql.array(ids, "uuid")})
    `);
  }
  await deleteCertificatesOf(transaction, ids);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM donation WHERE id = ANY(${sql.array(ids, "uuid")})
  `);
};
