import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { MAXIMUM_REFUND_KEYS } from "./donations.rules.ts";
import type { ConfirmedDonation, Donation } from "./donations.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import {
  claimedKeys,
  deleteTestKeys,
  keyHash,
  knownKeys,
  recordOfKey,
  scopeOf,
} from "../records/idempotencyKeys.sql.ts";
import {
  ownedWithIds,
  ownedWithOwnIds,
  deleteCertificatesOf,
} from "../records/ownedRecords.sql.ts";
import { sql, timestamp, safeInteger } from "../../db/sql.ts";
import { eventInserts } from "../events/events.sql.ts";
import type { NewEvent } from "../events/events.sql.ts";
import { donationColumns, donationCoreColumns, donationRow } from "./donations.sql.ts";
import { totalSubtractions } from "./donationTotals.sql.ts";
import type { UncountedDonation } from "./donationTotals.sql.ts";
import { startingAt } from "../../db/batching/deleteInBatches.ts";

const insertedRow = z.strictObject({
  ids: z.array(z.uuid()),
  /** Null if nothing was inserted. */
  totalCount: safeInteger.nullable(),
});

/** The rows of donations as JSON. */
const inputOf = (donations: readonly ConfirmedDonation[]): string =>
  JSON.stringify(
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
  );

/**
 * Inserts donations of one time with their totals and events, in one statement. Waits for concurrent calls with their
 * idempotency keys.
 * @param events whose data have the id of one of the donations
 * @returns the ids of those that were inserted, and how many donations the owner has then; the keys of the others exist
 * @throws DomainError request_invalid if a total would exceed 2^53 - 1
 */
export const insertDonations = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  donations: readonly ConfirmedDonation[],
  createdAt: Date,
  events: readonly NewEvent[],
): Promise<Readonly<z.output<typeof insertedRow>>> => {
  const isInserted = sql.fragment`(value -> 2 ->> 'donation_id')::uuid IN (SELECT id FROM inserted)`;
  try {
    return await db.one(sql.prepared("insert_donations", insertedRow)`
      WITH entry AS MATERIALIZED (
        SELECT (value ->> 0)::uuid AS id, value ->> 7 AS idempotency_key, value
        FROM json_array_elements(${inputOf(donations)}::json) AS value
      ),
      ${claimedKeys(scopeOf(owner, "donate"))},
      inserted AS (
        INSERT INTO donation (
          id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, confirmed_name,
          created_at, idempotency_key, attribution, metadata
        )
        SELECT
          id, ${owner.accountId}, ${owner.mode}, (value ->> 1)::bigint, value ->> 2, value ->> 3,
          value ->> 4, value ->> 5, value ->> 6, ${timestamp(createdAt)}, idempotency_key, value ->> 8,
          (value -> 9)::jsonb
        FROM entry
        WHERE idempotency_key IS NULL OR id IN (SELECT record_id FROM claimed)
        ORDER BY id
        RETURNING id, amount_cents
      ),
      addition AS (
        SELECT period, count(*) AS count, sum(amount_cents)::bigint AS amount_cents
        FROM inserted
        CROSS JOIN (VALUES (${monthOf(createdAt)}), ('all')) AS span (period)
        GROUP BY period
      ),
      new_total AS (
        INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
        SELECT ${owner.accountId}, ${owner.mode}, period, count, amount_cents
        FROM addition
        -- As every change of totals, so that concurrent ones cannot deadlock.
        ORDER BY period = 'all'
        ON CONFLICT (account_id, mode, period) DO UPDATE
        SET
          count = donation_total.count + excluded.count,
          amount_cents = donation_total.amount_cents + excluded.amount_cents
        RETURNING period, count
      ),
      ${eventInserts(owner, events, createdAt, isInserted)}
      SELECT
        (SELECT coalesce(json_agg(id), '[]') FROM inserted) AS ids,
        (SELECT count FROM new_total WHERE period = 'all') AS "totalCount"
    `);
  } catch (error) {
    throw asTotalError(error, "donation_total_safe", "amount_cents");
  }
};

export const listDonationsByKeys = (
  db: CommonQueryMethods,
  owner: AccountMode,
  keys: readonly string[],
): Promise<readonly Donation[]> =>
  db.any(sql.type(donationRow)`
    SELECT ${donationColumns}
    FROM donation
    WHERE donation.id = ANY(ARRAY(SELECT record_id FROM ${knownKeys(owner, "donate", keys)}))
  `);

export const listDonationsByIds = (
  db: CommonQueryMethods,
  owner: AccountMode,
  ids: readonly string[],
): Promise<readonly Donation[]> =>
  db.any(sql.type(donationRow)`
    SELECT ${donationColumns}
    FROM donation
    WHERE ${ownedWithOwnIds("donation", owner, ids)}
  `);

const lockedRow = donationRow.extend({ metadata: donationRow.shape.metadata.nullable() });

/** A donation that is locked. Its metadata is null if it is one of many. */
export type LockedDonation = Readonly<z.output<typeof lockedRow>>;

/** Each donation may have 64 KiB of metadata. */
const MAXIMUM_WITH_METADATA = 10;

/**
 * Locks the owner's donations until the transaction ends.
 * @param given their own ids, or those that they were imported with
 * @returns them by the given ids, without those that the owner does not have
 */
export const lockDonations = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  given: readonly string[],
): Promise<ReadonlyMap<string, LockedDonation>> => {
  const rows = await transaction.any(sql.prepared("lock_donations", lockedRow)`
    SELECT
      ${donationCoreColumns},
      donation.charity_provider AS "charityProvider",
      donation.idempotency_key AS "idempotencyKey",
      donation.attribution,
      CASE WHEN ${given.length <= MAXIMUM_WITH_METADATA} THEN donation.metadata END AS metadata
    FROM donation
    WHERE ${ownedWithIds("donation", owner, given)}
    ORDER BY donation.id
    FOR UPDATE
  `);
  const byId = new Map(
    rows.flatMap((row) => [row.id, row.importedId ?? row.id].map((id) => [id, row] as const)),
  );
  return new Map(
    given.flatMap((id) => {
      const row = byId.get(id) ?? byId.get(id.toLowerCase());
      return row ? [[id, row] as const] : [];
    }),
  );
};

const claimRow = z.strictObject({ idempotencyKey: z.string(), donationId: z.uuid() });

/**
 * Assigns idempotency keys of refunds to locked donations unless they already belong to some, as far as a donation may have
 * further ones. Waits for concurrent calls with the keys.
 * @param claims each key once
 * @returns the id of the donation that each key belongs to, without keys that belong to none
 */
export const claimRefundKeys = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  claims: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> => {
  const scope = scopeOf(owner, "refund_donate");
  const rows = await transaction.any(sql.prepared("claim_refund_keys", claimRow)`
    WITH claim AS MATERIALIZED (
      SELECT
        value ->> 0 AS idempotency_key,
        ${keyHash(scope, sql.fragment`value ->> 0`)} AS key_hash,
        (value ->> 1)::uuid AS donation_id
      FROM json_array_elements(${JSON.stringify([...claims])}::json) AS value
    ),
    known AS MATERIALIZED (
      SELECT claim.*, ${recordOfKey(sql.identifier(["claim", "key_hash"]))} IS NOT NULL AS is_known
      FROM claim
    ),
    numbered AS (
      SELECT known.*, row_number() OVER (PARTITION BY donation_id, is_known ORDER BY key_hash) AS number
      FROM known
    ),
    claimed AS (
      INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
      SELECT key_hash, ${owner.accountId}, ${owner.mode}, ${scope.operation}, donation_id
      FROM numbered
      WHERE is_known
        OR number + (
          SELECT count(*)
          FROM idempotency_key
          WHERE idempotency_key.operation = 'refund_donate' AND idempotency_key.record_id = numbered.donation_id
        ) <= ${MAXIMUM_REFUND_KEYS}
      ORDER BY key_hash
      -- The update changes nothing: it locks the row, and RETURNING needs it.
      ON CONFLICT (key_hash) DO UPDATE SET record_id = idempotency_key.record_id
      RETURNING key_hash, record_id
    )
    SELECT claim.idempotency_key AS "idempotencyKey", claimed.record_id AS "donationId"
    FROM claimed
    JOIN claim ON claim.key_hash = claimed.key_hash
  `);
  return new Map(rows.map(({ idempotencyKey, donationId }) => [idempotencyKey, donationId]));
};

/** The refund of a locked donation. */
export type NewDonationRefund = {
  readonly donation: UncountedDonation & { readonly id: string };
  readonly request: {
    readonly reason: string | null;
    readonly idempotencyKey: string | null;
    readonly metadata: Metadata;
  };
};

const refundedRow = z.strictObject({ totalCount: safeInteger });

/**
 * Inserts refunds of locked donations with their events, marks the donations as refunded, and subtracts them from the totals,
 * in one statement. Call it once in a transaction: it locks the all-time total last, so that concurrent changes of several
 * months cannot deadlock.
 * @returns how many donations of the owner are not refunded
 */
export const insertDonationRefunds = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  refunds: readonly NewDonationRefund[],
  createdAt: Date,
  events: readonly NewEvent[],
): Promise<number> =>
  transaction.oneFirst(sql.prepared("insert_donation_refunds", refundedRow)`
    WITH inserted AS (
      INSERT INTO donation_refund (donation_id, account_id, mode, reason, idempotency_key, metadata, created_at)
      SELECT
        (value ->> 0)::uuid, ${owner.accountId}, ${owner.mode}, value ->> 1, value ->> 2, (value -> 3)::jsonb,
        ${timestamp(createdAt)}
      FROM json_array_elements(${JSON.stringify(
        refunds.map(({ donation, request: { reason, idempotencyKey, metadata } }) => [
          donation.id,
          reason,
          idempotencyKey,
          metadata,
        ]),
      )}::json) AS value
    ),
    updated AS (
      UPDATE donation
      SET refunded = true
      WHERE id = ANY(${sql.array(
        refunds.map(({ donation: { id } }) => id),
        "uuid",
      )})
    ),
    ${totalSubtractions(
      owner,
      refunds.map(({ donation }) => donation),
    )},
    ${eventInserts(owner, events, createdAt, sql.fragment`true`)}
    SELECT count AS "totalCount" FROM new_total WHERE period = 'all'
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

/** Deletes donations of test mode with their refunds and idempotency keys. */
export const deleteDonations = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<void> => {
  await deleteTestKeys(transaction, ids);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM donation_refund WHERE donation_id = ANY(${sql.array(ids, "uuid")})
  `);
  await deleteCertificatesOf(transaction, ids);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM donation WHERE id = ANY(${sql.array(ids, "uuid")})
  `);
};
