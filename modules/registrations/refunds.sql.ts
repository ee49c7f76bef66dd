import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { eventInserts } from "../events/events.sql.ts";
import type { NewEvent } from "../events/events.sql.ts";
import { sumsOf, totalSubtractions } from "./totals.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { inMicroseconds, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";
import { hasUsage, maximumQuantity } from "../billing/registrationFacts.sql.ts";
import { lockedRegistration } from "./decideRefund.rules.ts";
import { namedIds } from "../records/ownedRecords.sql.ts";
import type { NamedRecord } from "../records/ownedRecords.sql.ts";
import { REFUND_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { claimedKeys, keyHash, recordOfKey, scopeOfRow } from "../records/idempotencyKeys.sql.ts";

type NewRefund = Owner & {
  readonly id: string;
  readonly registrationId: string;
  readonly count: number;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
  /** In microseconds for a store's. */
  readonly createdAt: string;
};

const operationOf = ({ kind }: Owner, byOperator: boolean): Operation =>
  byOperator ? "operator_refund" : REFUND_OPERATIONS[kind];

const REFUND = {
  id: "uuid",
  registrationId: "uuid",
  count: "int8",
  reason: "text",
  idempotencyKey: "text",
  createdAt: "timestamptz",
  accountId: "uuid",
  mode: "text",
  kind: "text",
  operation: "text",
} as const;

const refundedRow = z.strictObject({ ...ownerColumns, total: safeInteger, keys: z.int() });

/**
 * Records refunds of locked registrations with their keys and events, and with the usage that they take back, at the second
 * of each registration. Those of stores have none, so they are recorded as dispatched. Waits for concurrent calls with the
 * keys. It must be the last part of a transaction: the totals are locked last.
 * @returns the owners' all-time totals afterwards by `ownerKey`, and how many of the keys were free
 */
export const insertRefunds = async (
  transaction: DatabaseTransactionConnection,
  refunds: readonly NewRefund[],
  byOperator: boolean,
  events: readonly NewEvent[],
  now: Date,
) => {
  const given = refunds.map((refund) => ({
    ...refund,
    operation: operationOf(refund, byOperator),
  }));
  const rows = await transaction.any(sql.prepared("insert_refunds", refundedRow)`
    WITH entry AS MATERIALIZED (${jsonRows(REFUND, given)}),
    updated AS (
      UPDATE registration
      SET refunded_count = refunded_count + refunded.count, ordered_count = ${keptOrderedCount}
      FROM (SELECT registration_id, sum(count)::bigint AS count FROM entry GROUP BY registration_id) AS refunded
      -- The planner expects few ids in an array, so that it does not read the whole table.
      WHERE registration.id = ANY(ARRAY(SELECT registration_id FROM entry))
        AND registration.id = refunded.registration_id
      RETURNING registration.id, registration.usage_batch, registration.created_at AS registered_at
    ),
    refunded AS MATERIALIZED (
      SELECT entry.*, updated.usage_batch, updated.registered_at
      FROM entry
      JOIN updated ON updated.id = entry.registration_id
    ),
    inserted AS (
      INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
      SELECT
        id, registration_id, account_id, count, reason, created_at, CASE WHEN usage_batch IS NULL THEN created_at END
      FROM refunded
      ORDER BY id
    ),
    fact AS (
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second)
      SELECT
        account_id, mode, kind, usage_batch, id, -least(count - part * ${maximumQuantity}, ${maximumQuantity}),
        floor(extract(epoch FROM registered_at))::bigint
      FROM refunded
      CROSS JOIN LATERAL generate_series(0, (count - 1) / ${maximumQuantity}) AS part
      WHERE usage_batch IS NOT NULL
      ORDER BY id
    ),
    ${claimedKeys(scopeOfRow("entry"))},
    ${eventInserts(events, now, sql.fragment`true`)},
    -- Another transaction may wait for a total and have one of the keys.
    ${totalSubtractions(
      sumsOf(sql.fragment`(
        SELECT account_id, mode, kind, count, registered_at AS created_at
        FROM refunded
        CROSS JOIN (SELECT count(*) FROM claimed) AS keys (free)
      ) AS unit`),
    )}
    SELECT
      account_id AS "accountId", mode, kind, total, (SELECT count(*)::integer FROM claimed) AS keys
    FROM new_total
    WHERE period = 'all'
  `);
  return {
    totals: new Map(rows.map(({ total, keys: _keys, ...owner }) => [ownerKey(owner), total])),
    keys: rows[0]?.keys ?? 0,
  };
};

const lockedRow = z.strictObject({ place: z.int(), registration: lockedRegistration.nullable() });

/**
 * Locks registrations until the transaction ends.
 * @returns those that exist by their index in the list; null for one that `skipsLocked` skips
 */
export const lockRegistrations = async (
  transaction: DatabaseTransactionConnection,
  named: readonly NamedRecord[],
  { skipsLocked = false } = {},
) => {
  const rows = await transaction.any(sql.prepared(
    `lock_registrations_${skipsLocked ? "skip" : "wait"}`,
    lockedRow,
  )`
    WITH found AS MATERIALIZED (${namedIds("registration", named)}),
    locked AS MATERIALIZED (
      SELECT
        registration.id,
        json_build_object(
          'id', registration.id,
          'importedId', registration.imported_id,
          'count', registration.count,
          'refundedCount', registration.refunded_count,
          'createdAt', registration.created_at,
          'hasUsage', ${hasUsage},
          'unitPriceCents', registration.unit_price_cents
        ) AS registration
      FROM registration
      WHERE registration.id = ANY(ARRAY(SELECT id FROM found))
      ORDER BY registration.id
      FOR UPDATE OF registration ${skipsLocked ? sql.fragment`SKIP LOCKED` : sql.fragment``}
    )
    SELECT found.place, locked.registration
    FROM found
    LEFT JOIN locked USING (id)
  `);
  return new Map(rows.map(({ place, registration }) => [place, registration]));
};

const keyedRow = z.strictObject({ place: z.int(), registrationId: z.uuid(), count: safeInteger });

const KEY = { accountId: "uuid", mode: "text", operation: "text", idempotencyKey: "text" } as const;

/** Returns the refunds that keys of clients or of operators belong to, by their index in the list. */
export const listRefundsByKeys = async (
  db: CommonQueryMethods,
  keys: readonly (Owner & { readonly idempotencyKey: string | null })[],
  byOperator: boolean,
) => {
  const wanted = keys.map((key) => ({ ...key, operation: operationOf(key, byOperator) }));
  const rows = await db.any(sql.prepared("list_refunds_by_keys", keyedRow)`
    SELECT (given.place - 1)::integer AS place, refund.registration_id AS "registrationId", refund.count
    FROM (${jsonRows(KEY, wanted)}) AS given
    CROSS JOIN LATERAL (
      SELECT *
      FROM refund
      WHERE refund.id = ${recordOfKey(keyHash(scopeOfRow("given"), sql.identifier(["given", "idempotency_key"])))}
      LIMIT 1
    ) AS refund
  `);
  return new Map(rows.map(({ place, ...refund }) => [place, refund]));
};

const waitingRefundsRow = z.strictObject({
  registrationId: z.uuid(),
  ids: z.array(z.uuid()),
  lastAt: z.string(),
});

/** Refunds of a registration that wait for their workflow, which is one for all of them. */
export type WaitingRefunds = Readonly<z.output<typeof waitingRefundsRow>>;

/**
 * Lists the oldest refunds whose workflow has not been started yet, by their registrations.
 * @param after the `lastAt` of the page before; null for the first page
 */
export const listWaitingRefunds = (
  db: CommonQueryMethods,
  limit: number,
  after: string | null = null,
) =>
  db.any(sql.type(waitingRefundsRow)`
    SELECT registration_id AS "registrationId", array_agg(id) AS ids, ${inMicroseconds(sql.fragment`max(created_at)`)} AS "lastAt"
    FROM (
      SELECT id, registration_id, created_at
      FROM refund
      WHERE dispatched_at IS NULL AND created_at > coalesce(${timestamp(after)}, '-infinity')
      ORDER BY created_at
      LIMIT ${limit}
    ) AS waiting
    GROUP BY registration_id
    ORDER BY "lastAt"
  `);

/** @param ids those that were listed before the workflow started. It may have missed one that was recorded since */
export const markRefundsDispatched = (
  db: CommonQueryMethods,
  ids: readonly string[],
  dispatchedAt: Date,
) =>
  db.query(sql.typeAlias("void")`
    UPDATE refund SET dispatched_at = ${timestamp(dispatchedAt)} WHERE id = ANY(${sql.array(ids, "uuid")})
  `);
