import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { coreRow, monthOf, registrationRow } from "./registrations.rules.ts";
import type { NewRegistration } from "./registrations.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import {
  claimedKeys,
  keyHash,
  knownKeys,
  recordOfKey,
  registerOperation,
  scopeOfRow,
} from "../records/idempotencyKeys.sql.ts";
import { ownedWithId } from "../records/ownedRecords.sql.ts";
import { accountTypeColumn, ownerColumns } from "../records/columns.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { columnsOf, sql, timestamp } from "../../db/sql.ts";
import { maximumJsonBytes } from "./presentRegistration.rules.ts";
import { registrationColumns } from "./registrationColumns.sql.ts";
import { asTotalError, totalAdditions } from "./totals.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { maximumQuantity } from "../billing/registrationFacts.sql.ts";

/** A registration to insert. The ids of a batch ascend in the order of arrival. */
export type RegistrationEntry = NewRegistration & { readonly id: string };

/** The totals are columns, because PostgreSQL needs 3 µs more to write them as JSON objects, of 54 µs for a registration. */
const insertedRow = z.strictObject({
  /** Null if all are new. */
  insertedIds: z.array(z.uuid()).nullable(),
  /** As `ownerKey` names them. */
  owners: z.array(z.string()),
  periods: z.array(z.string()),
  totals: z.array(z.int()),
});

const ENTRY_SCOPE = {
  ...scopeOfRow("entry"),
  operation: registerOperation(sql.fragment`entry.kind`),
};

const entryRows = (entries: readonly RegistrationEntry[]) => {
  const input = JSON.stringify(
    entries.map((entry) => [
      entry.id,
      entry.accountId,
      entry.mode,
      entry.kind,
      entry.count,
      entry.fractionalCount,
      entry.idempotencyKey,
      entry.attribution,
      entry.metadata,
      maximumJsonBytes(entry),
    ]),
  );
  return sql.fragment`
    SELECT
      (value ->> 0)::uuid AS id,
      (value ->> 1)::uuid AS account_id,
      value ->> 2 AS mode,
      value ->> 3 AS kind,
      (value ->> 4)::bigint AS count,
      (value ->> 5)::double precision AS fractional_count,
      value ->> 6 AS idempotency_key,
      value ->> 7 AS attribution,
      value -> 8 AS metadata,
      (value ->> 9)::integer AS json_bytes
    FROM jsonb_array_elements(${input}::jsonb) AS value
  `;
};

/**
 * Records a batch, its usage facts and its totals in one statement, all or nothing. An entry whose idempotency key
 * exists, in this batch or in another transaction, is skipped: its key is inserted first, which waits for other transactions.
 *
 * Orders, keys and totals are inserted in a fixed order, so that two batches that share some cannot deadlock.
 * @returns the ids of new registrations, or null if all are new, and the totals of their owners by `ownerKey` afterwards
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertRegistrations = async (
  db: CommonQueryMethods,
  entries: readonly RegistrationEntry[],
  createdAt: Date,
) => {
  try {
    const row = await db.one(sql.prepared("insert_registrations", insertedRow)`
      WITH entry AS MATERIALIZED (${entryRows(entries)}),
      batch AS MATERIALIZED (SELECT nextval('usage_batch') AS number),
      ${joinedOrders("entry")},
      -- Orders are opened before keys are inserted, as in imports.
      ${claimedKeys(ENTRY_SCOPE, sql.fragment`CROSS JOIN (SELECT count(*) FROM joined_order) AS orders`)},
      inserted AS (
        INSERT INTO registration (
          id, account_id, mode, kind, count, fractional_count, created_at, idempotency_key, attribution, metadata,
          json_bytes, usage_batch, planting_order_id, tree_order_id
        )
        SELECT
          id, account_id, mode, kind, count, fractional_count, ${timestamp(createdAt)}, idempotency_key,
          attribution, metadata, json_bytes, (SELECT number FROM batch), planting_order_id, ${treeOrderId}
        FROM entry
        LEFT JOIN joined_order USING (account_id, mode, kind)
        WHERE idempotency_key IS NULL OR id IN (SELECT record_id FROM claimed)
        ORDER BY account_id, mode, kind, id
        RETURNING id, account_id, mode, kind, count
      ),
      addition AS (
        SELECT account_id, mode, kind, sum(count)::bigint AS count, count(*)::integer AS record_count
        FROM inserted
        GROUP BY account_id, mode, kind
      ),
      fact AS (
        INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, record_count, second)
        SELECT
          account_id, mode, kind, (SELECT number FROM batch),
          least(count - part * ${maximumQuantity}, ${maximumQuantity}), record_count, ${secondOf(createdAt)}::bigint
        FROM addition
        CROSS JOIN LATERAL generate_series(0, (count - 1) / ${maximumQuantity}) AS part
      ),
      ${totalAdditions(sql.fragment`
        SELECT account_id, mode, kind, period, count
        FROM addition
        CROSS JOIN (VALUES ('all'), (${monthOf(createdAt)})) AS span (period)
      `)}
      SELECT
        CASE
          WHEN (SELECT count(*) FROM inserted) < ${entries.length}
          THEN (SELECT coalesce(json_agg(id), '[]') FROM inserted)
        END AS "insertedIds",
        coalesce(to_json(array_agg(account_id || '/' || mode || '/' || kind)), '[]') AS owners,
        coalesce(to_json(array_agg(period)), '[]') AS periods,
        coalesce(to_json(array_agg(total)), '[]') AS totals
      FROM new_total
    `);
    const totals = new Map(row.owners.map((owner) => [owner, { all: 0, month: 0 }]));
    for (const [index, total] of row.totals.entries()) {
      const ofOwner = totals.get(row.owners[index] ?? "");
      if (ofOwner) {
        ofOwner[row.periods[index] === "all" ? "all" : "month"] = total;
      }
    }
    return { insertedIds: row.insertedIds && new Set(row.insertedIds), totals };
  } catch (error) {
    throw asTotalError(error, "impact_total_safe", "count");
  }
};

const keyRow = z.strictObject({ ...ownerColumns, idempotencyKey: z.string() });

const KEY = { accountId: "uuid", mode: "text", kind: "text", idempotencyKey: "text" } as const;

/** Returns those of the entries' keys that registrations have. */
export const listKnownKeys = async (
  db: CommonQueryMethods,
  entries: readonly (Owner & { readonly idempotencyKey: string | null })[],
) => {
  const keyed = entries.filter(({ idempotencyKey }) => idempotencyKey !== null);
  return keyed.length === 0
    ? []
    : db.any(sql.type(keyRow)`
        SELECT account_id AS "accountId", mode, kind, idempotency_key AS "idempotencyKey"
        FROM (${jsonRows(KEY, keyed)}) AS entry
        WHERE ${recordOfKey(keyHash(ENTRY_SCOPE, sql.fragment`entry.idempotency_key`))} IS NOT NULL
      `);
};

export const listByIdempotencyKeys = (
  db: CommonQueryMethods,
  owner: Owner,
  idempotencyKeys: readonly string[],
) =>
  db.any(sql.prepared("list_by_idempotency_keys", registrationRow)`
    SELECT ${registrationColumns}
    FROM registration
    WHERE registration.id = ANY(ARRAY(
      SELECT record_id FROM ${knownKeys(owner, REGISTER_OPERATIONS[owner.kind], idempotencyKeys)}
    ))
  `);

export const listRegistrationsByIds = (db: CommonQueryMethods, ids: readonly string[]) =>
  db.any(sql.prepared("list_registrations_by_ids", registrationRow)`
    SELECT ${registrationColumns}
    FROM registration
    WHERE registration.id = ANY(ARRAY(SELECT unnest((SELECT ${sql.array([...ids], "uuid")}))))
  `);

const accountRegistrationRow = coreRow.extend({
  ...ownerColumns,
  accountName: z.string(),
  accountType: accountTypeColumn,
  isPrepaid: z.boolean(),
});

/** Looks a registration up for an operator, in all accounts and modes. */
export const findRegistration = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(sql.type(accountRegistrationRow)`
    SELECT ${columnsOf("registration", accountRegistrationRow, {
      accountName: sql.fragment`account.name`,
      accountType: sql.fragment`account.type`,
      isPrepaid: sql.fragment`registration.unit_price_cents IS NOT NULL`,
    })}
    FROM registration
    JOIN account ON account.id = registration.account_id
    WHERE registration.id = ${id}
  `);

export const findOwnRegistration = (db: CommonQueryMethods, owner: Owner, id: string) =>
  db.maybeOne(sql.prepared("find_own_registration", registrationRow)`
    SELECT ${registrationColumns}
    FROM registration
    WHERE ${ownedWithId("registration", owner, id)}
  `);
