import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { MAXIMUM_REFUND_KEYS } from "./donations.rules.ts";
import type { ConfirmedDonation, Donation } from "./donations.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import { ownedWithIds, ownedWithKeys, deleteCertificatesOf } from "../records/ownedRecords.sql.ts";
import { sql, timestamp, safeInteger } from "../../db/sql.ts";
import {
  donationColumns,
  donationCoreColumns,
  donationCoreRow,
  donationRow,
} from "./donations.sql.ts";
import { startingAt } from "../../db/batching/deleteInBatches.ts";

const idRow = z.strictObject({ id: z.uuid() });

/**
 * Inserts donations without their totals. Waits for concurrent calls with their idempotency keys.
 * @returns the ids of those that were inserted; the keys of the others exist
 */
export const insertDonations = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  donations: readonly ConfirmedDonation[],
  createdAt: Date,
): Promise<ReadonlySet<string>> =>
  new Set(
    await transaction.anyFirst(sql.type(idRow)`
      INSERT INTO donation (
        id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, confirmed_name,
        created_at, idempotency_key, attribution, metadata
      )
      SELECT
        (value ->> 0)::uuid, ${accountId}, ${mode}, (value ->> 1)::bigint, value ->> 2, value ->> 3, value ->> 4,
        value ->> 5, value ->> 6, ${timestamp(createdAt)}, value ->> 7, value ->> 8, (value -> 9)::jsonb
      FROM json_array_elements(${JSON.stringify(
        donations.map((donation) => [
          donation.id,
          donation.amountCents,
          donation.ein,
          donation.nonprofitId,
          donation.charityProvider,
          donation.charityName,
          donation.confirmedName,
          donation.idempotencyKey,
          donation.attribution,
          donation.metadata,
        ]),
      )}) AS value
      -- By key, so that two batches with the same keys cannot deadlock.
      ORDER BY text_digest(value ->> 7), value ->> 0
      ON CONFLICT DO NOTHING
      RETURNING id
    `),
  );

export const listDonationsByKeys = (
  db: CommonQueryMethods,
  owner: AccountMode,
  keys: readonly string[],
): Promise<readonly Donation[]> =>
  db.any(sql.type(donationRow)`
    SELECT ${donationColumns}
    FROM ${ownedWithKeys("donation", owner, "idempotency_key", keys)}
  `);

export const listDonationsByIds = (
  db: CommonQueryMethods,
  owner: AccountMode,
  ids: readonly string[],
): Promise<readonly Donation[]> =>
  db.any(sql.type(donationRow)`
    SELECT ${donationColumns}
    FROM ${ownedWithIds("donation", owner, ids)}
  `);

const lockedRow = z.strictObject(donationCoreRow);

/** A donation that is locked, without what a client attached to it. */
export type LockedDonation = Readonly<z.output<typeof lockedRow>>;

/** Locks donations until the transaction ends. */
export const lockDonations = (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<readonly LockedDonation[]> =>
  transaction.any(sql.type(lockedRow)`
    SELECT ${donationCoreColumns}
    FROM donation
    WHERE id = ANY(${sql.array([...ids], "uuid")})
    ORDER BY id
    FOR UPDATE
  `);

const claimRow = z.strictObject({ idempotencyKey: z.string(), donationId: z.uuid() });

/**
 * Assigns idempotency keys of refunds to locked donations unless they already belong to some, as far as a donation may have
 * further ones. Waits for concurrent calls with the keys.
 * @param claims each key once
 * @returns the id of the donation that each key belongs to, without keys that belong to none
 */
export const claimRefundKeys = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  claims: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> => {
  const rows = await transaction.any(sql.type(claimRow)`
    WITH claim AS (
      SELECT
        value ->> 0 AS idempotency_key,
        (value ->> 1)::uuid AS donation_id,
        EXISTS (
          SELECT
          FROM donation_refund_key
          WHERE account_id = ${accountId} AND mode = ${mode} AND key_digest = text_digest(value ->> 0)
        ) AS is_known
      FROM json_array_elements(${JSON.stringify([...claims])}) AS value
    ),
    numbered AS (
      SELECT claim.*, row_number() OVER (PARTITION BY donation_id, is_known ORDER BY idempotency_key) AS number
      FROM claim
    )
    INSERT INTO donation_refund_key AS known (account_id, mode, idempotency_key, donation_id)
    SELECT ${accountId}, ${mode}, idempotency_key, donation_id
    FROM numbered
    WHERE is_known
      OR number + (
        SELECT count(*) FROM donation_refund_key WHERE donation_refund_key.donation_id = numbered.donation_id
      ) <= ${MAXIMUM_REFUND_KEYS}
    ORDER BY text_digest(idempotency_key)
    -- The update changes nothing: it locks the row, and RETURNING needs it.
    ON CONFLICT (account_id, mode, key_digest) DO UPDATE SET donation_id = known.donation_id
    RETURNING known.idempotency_key AS "idempotencyKey", known.donation_id AS "donationId"
  `);
  return new Map(rows.map(({ idempotencyKey, donationId }) => [idempotencyKey, donationId]));
};

export type NewDonationRefund = {
  readonly donationId: string;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
  readonly metadata: Metadata;
};

const refundsRow = z.strictObject({ refunds: z.int() });

/**
 * Inserts the refunds of locked donations, and marks these as refunded.
 * @returns how many were inserted; the others' donations or idempotency keys already have a refund
 */
export const insertDonationRefunds = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  refunds: readonly NewDonationRefund[],
  createdAt: Date,
): Promise<number> =>
  transaction.oneFirst(sql.type(refundsRow)`
    WITH inserted AS (
      INSERT INTO donation_refund (donation_id, account_id, mode, reason, idempotency_key, metadata, created_at)
      SELECT
        (value ->> 0)::uuid, ${accountId}, ${mode}, value ->> 1, value ->> 2, (value -> 3)::jsonb,
        ${timestamp(createdAt)}
      FROM json_array_elements(${JSON.stringify(
        refunds.map(({ donationId, reason, idempotencyKey, metadata }) => [
          donationId,
          reason,
          idempotencyKey,
          metadata,
        ]),
      )}) AS value
      ORDER BY text_digest(value ->> 2)
      ON CONFLICT DO NOTHING
      RETURNING donation_id
    ),
    updated AS (
      UPDATE donation
      SET refunded = true
      FROM inserted
      WHERE donation.id = inserted.donation_id
    )
    SELECT count(*)::integer AS refunds FROM inserted
  `);

const accountIdRow = z.strictObject({ accountId: z.uuid() });

/** Lists the accounts that have ever made a donation in test mode. */
export const listTestDonors = (db: CommonQueryMethods): Promise<readonly string[]> =>
  db.anyFirst(sql.type(accountIdRow)`
    SELECT account_id AS "accountId"
    FROM donation_total
    WHERE mode = 'test' AND period = 'all'
    ORDER BY account_id
  `);

const oldRow = z.strictObject({
  id: z.uuid(),
  createdAt: z.date(),
  amountCents: safeInteger,
  refunded: z.boolean(),
});

/**
 * Locks an account's oldest test donations before a time, without those that another transaction has locked.
 * @param from where an earlier batch ended; null for the first
 */
export const lockOldTestDonations = (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<readonly Readonly<z.output<typeof oldRow>>[]> =>
  transaction.any(sql.type(oldRow)`
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
