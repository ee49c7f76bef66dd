import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ConfirmedDonation } from "./donations.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import { claimedKeys, knownKeys, scopeOf } from "../records/idempotencyKeys.sql.ts";
import { namedIds } from "../records/ownedRecords.sql.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { columnsOf, countRow, nothing, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { eventInserts } from "../events/events.sql.ts";
import type { NewEvent } from "../events/events.sql.ts";
import { donationCore } from "./donations.rules.ts";
import { totalAdditions, totalSubtractions } from "./donationTotals.sql.ts";

const insertedRow = z.strictObject({ ids: z.array(z.uuid()), count: safeInteger.nullable() });

/**
 * Inserts an owner's donations of one time with their totals and events, in one statement. Waits for concurrent calls with
 * their idempotency keys.
 * @param events whose data have the id of one of the donations
 * @returns the ids of those that were inserted, and how many donations the owner has then, null if none was inserted; the
 *   keys of the others exist
 * @throws DomainError request_invalid if a total would exceed 2^53 - 1
 */
export const insertDonations = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  donations: readonly ConfirmedDonation[],
  createdAt: Date,
  events: readonly NewEvent[],
) => {
  const isInserted = sql.fragment`(value -> 2 ->> 'donation_id')::uuid IN (SELECT id FROM inserted)`;
  try {
    return await db.one(sql.prepared("insert_donations", insertedRow)`
      WITH entry AS MATERIALIZED (
        SELECT
          given.*, ${owner.accountId}::uuid AS account_id, ${owner.mode}::text AS mode,
          "idempotencyKey" AS idempotency_key
        FROM json_to_recordset(${JSON.stringify(donations)}::json) AS given (
          id uuid, "amountCents" bigint, ein text, "nonprofitId" text, "charityProvider" text,
          "charityName" text, "confirmedName" text, "idempotencyKey" text, attribution text, metadata jsonb
        )
      ),
      ${claimedKeys(scopeOf(owner, "donate"))},
      inserted AS (
        INSERT INTO donation (
          id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, confirmed_name,
          created_at, idempotency_key, attribution, metadata
        )
        SELECT
          id, account_id, mode, "amountCents", ein, "nonprofitId", "charityProvider", "charityName", "confirmedName",
          ${timestamp(createdAt)}, idempotency_key, attribution, metadata
        FROM entry
        WHERE idempotency_key IS NULL OR id IN (SELECT record_id FROM claimed)
        ORDER BY id
        RETURNING id, account_id, mode, amount_cents
      ),
      ${totalAdditions(sql.fragment`inserted`)},
      ${eventInserts(events, createdAt, isInserted)}
      SELECT (SELECT coalesce(json_agg(id), '[]') FROM inserted) AS ids, (SELECT count FROM new_donor) AS count
    `);
  } catch (error) {
    throw asTotalError(error, "donor_total_safe", "amount_cents");
  }
};

const lockedRow = donationCore.extend({ accountId: z.uuid(), mode: modeColumn });

export type LockedDonation = Readonly<z.output<typeof lockedRow>>;

/**
 * Locks an owner's donations until the transaction ends.
 * @param ids their own, or those that they were imported with
 * @returns them by the given ids, without those that do not exist
 */
export const lockDonations = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  ids: readonly string[],
) => {
  const named = ids.map((id) => Object.assign({ id }, owner));
  const rows = await transaction.any(sql.prepared("lock_donations", lockedRow)`
    SELECT ${columnsOf("donation", lockedRow)}
    FROM donation
    WHERE donation.id = ANY(ARRAY(SELECT id FROM (${namedIds("donation", named)}) AS found))
    ORDER BY donation.id
    FOR UPDATE OF donation
  `);
  const byId = new Map(
    rows.flatMap((row) => [row.id, row.importedId ?? row.id].map((id) => [id, row] as const)),
  );
  return new Map(
    ids.flatMap((id) => {
      const row = byId.get(id) ?? byId.get(id.toLowerCase());
      return row ? [[id, row] as const] : [];
    }),
  );
};

const keyRow = z.strictObject({ key: z.string(), donationId: z.uuid() });

/**
 * Assigns the idempotency keys of refunds to donations unless they already belong to some. Waits for concurrent calls with the
 * keys.
 * @param donationIds by the keys
 * @returns the ids of the donations that the keys belong to
 */
export const claimRefundKeys = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donationIds: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> => {
  if (donationIds.size === 0) {
    return new Map<string, never>();
  }
  await transaction.query(sql.prepared("claim_refund_keys", nothing)`
    WITH entry AS MATERIALIZED (
      SELECT value ->> 0 AS idempotency_key, (value ->> 1)::uuid AS id
      FROM json_array_elements(${JSON.stringify([...donationIds])}::json) AS value
    ),
    ${claimedKeys(scopeOf(owner, "refund_donate"))}
    SELECT
  `);
  const rows = await transaction.any(sql.prepared("list_refund_keys", keyRow)`
    SELECT known.key, known.record_id AS "donationId"
    FROM ${knownKeys(owner, "refund_donate", [...donationIds.keys()])}
  `);
  return new Map(rows.map(({ key, donationId }) => [key, donationId]));
};

export type NewDonationRefund = {
  readonly donation: { readonly id: string };
  readonly request: {
    readonly reason: string | null;
    readonly idempotencyKey: string | null;
    readonly metadata: Metadata;
  };
};

/**
 * Inserts refunds of an owner's locked donations with their events, and changes the donations and the totals.
 * @returns how many donations of the owner are not refunded then
 */
export const insertDonationRefunds = async (
  transaction: DatabaseTransactionConnection,
  refunds: readonly NewDonationRefund[],
  createdAt: Date | string,
  events: readonly NewEvent[],
) => {
  const given = refunds.map(({ donation: { id }, request }) => Object.assign({}, request, { id }));
  return transaction.oneFirst(sql.prepared("insert_donation_refunds", countRow)`
    WITH given AS MATERIALIZED (
      SELECT *
      FROM json_to_recordset(${JSON.stringify(given)}::json) AS given (
        id uuid, reason text, "idempotencyKey" text, metadata jsonb
      )
    ),
    updated AS (
      UPDATE donation
      SET refunded = true
      WHERE id = ANY(ARRAY(SELECT id FROM given))
      RETURNING id, account_id, mode, created_at, amount_cents
    ),
    inserted AS (
      INSERT INTO donation_refund (donation_id, account_id, mode, reason, idempotency_key, metadata, created_at)
      SELECT id, account_id, mode, reason, "idempotencyKey", metadata, ${timestamp(createdAt)}
      FROM given
      JOIN updated USING (id)
    ),
    ${totalSubtractions(sql.fragment`updated`)},
    ${eventInserts(events, createdAt, sql.fragment`true`)}
    SELECT count FROM new_donor
  `);
};
