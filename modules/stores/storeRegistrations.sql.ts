import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type {
  ImpactFilter,
  ImpactRecord,
  CustomerDetails,
  EvidenceSelection,
} from "./customers.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { safeInteger, nothing, sql, timestamp } from "../../db/sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { keptOrderedCount, shownOrderPublicId } from "../planting/orders.sql.ts";
import { ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";
import { customerColumns, customerRow, isFiltered } from "./customers.sql.ts";
import { coreColumns, coreRow } from "../registrations/registrations.sql.ts";

export type StoreRegistration = Owner &
  CustomerDetails & {
    readonly id: string;
    readonly count: number;
    readonly unitPriceCents: number;
    /** In microseconds. */
    readonly createdAt: string;
  };

/** Inserts registrations of stores. They are prepaid, so they have no usage facts. */
export const insertStoreRegistrations = async (
  transaction: DatabaseTransactionConnection,
  registrations: readonly StoreRegistration[],
): Promise<void> => {
  await transaction.query(sql.prepared("insert_store_registrations", nothing)`
    WITH entry AS MATERIALIZED (
      SELECT
        (value ->> 0)::uuid AS id,
        (value ->> 1)::uuid AS account_id,
        value ->> 2 AS mode,
        value ->> 3 AS kind,
        (value ->> 4)::bigint AS count,
        value ->> 5 AS customer_name,
        value ->> 6 AS customer_email,
        value ->> 7 AS customer_id,
        value ->> 8 AS order_id,
        value ->> 9 AS notes,
        (value ->> 10)::bigint AS unit_price_cents,
        (value ->> 11)::timestamptz AS created_at
      FROM json_array_elements(${JSON.stringify(
        registrations.map((registration) => [
          registration.id,
          registration.accountId,
          registration.mode,
          registration.kind,
          registration.count,
          registration.customerName,
          registration.customerEmail,
          registration.customerId,
          registration.orderId,
          registration.notes,
          registration.unitPriceCents,
          registration.createdAt,
        ]),
      )}) AS value
    ),
    ${joinedOrders("entry")}
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, tree_order_id
    )
    SELECT
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, ${treeOrderId}
    FROM entry
    LEFT JOIN joined_order USING (account_id, mode, kind)
  `);
};

const recordRow = z.strictObject({
  ...coreRow,
  position: z.string(),
  ...customerRow,
  notes: z.string().nullable(),
});

const recordColumns = sql.fragment`
  ${coreColumns},
  ${positionColumn("registration")},
  ${customerColumns("registration")},
  registration.notes
`;

/** Returns a page of the owner's records, newest first. */
export const listStoreRegistrations = (
  db: CommonQueryMethods,
  owner: Owner,
  filter: ImpactFilter,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly ImpactRecord[]> =>
  db.any(sql.type(recordRow)`
    SELECT ${recordColumns}
    FROM registration
    WHERE ${isFiltered("registration", owner, filter)} AND ${olderThan("registration", after)}
    ORDER BY registration.created_at DESC, registration.id DESC
    LIMIT ${limit}
  `);

const unitsRow = z.strictObject({ units: safeInteger });

/** Returns the number of units of the matching records, less the reversed ones. */
export const sumStoreRegistrations = async (
  db: CommonQueryMethods,
  owner: Owner,
  filter: ImpactFilter,
): Promise<number> =>
  db.oneFirst(sql.type(unitsRow)`
    SELECT coalesce(sum(registration.count - registration.refunded_count), 0)::bigint AS units
    FROM registration
    WHERE ${isFiltered("registration", owner, filter)}
  `);

const reversibleRow = z.strictObject({
  id: z.uuid(),
  createdAt: z.date(),
  position: z.string(),
  remaining: safeInteger,
  unitPriceCents: safeInteger,
});

/** A record with units that can still be reversed. */
export type ReversibleRecord = Readonly<z.output<typeof reversibleRow>>;

/** Locks a page of the records that have units left, newest first, until the transaction ends. */
export const lockReversible = (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  filter: ImpactFilter,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly ReversibleRecord[]> =>
  transaction.any(sql.type(reversibleRow)`
    SELECT
      registration.id,
      registration.created_at AS "createdAt",
      ${positionColumn("registration")},
      registration.count - registration.refunded_count AS remaining,
      registration.unit_price_cents AS "unitPriceCents"
    FROM registration
    WHERE ${isFiltered("registration", owner, filter)}
      AND registration.unit_price_cents IS NOT NULL
      AND registration.refunded_count < registration.count
      AND ${olderThan("registration", after)}
    ORDER BY registration.created_at DESC, registration.id DESC
    LIMIT ${limit}
    FOR UPDATE OF registration
  `);

/** The reversed units of one record. */
type Reversal = {
  readonly refundId: string;
  readonly registrationId: string;
  readonly count: number;
};

/** Subtracts the units from their records and inserts the refunds as dispatched: they have no usage to report to a processor. */
export const insertReversals = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  reversals: readonly Reversal[],
  { reason, reversedAt }: { readonly reason: string | null; readonly reversedAt: Date },
): Promise<void> => {
  const now = timestamp(reversedAt);
  await transaction.query(sql.prepared("insert_reversals", nothing)`
    WITH reversed AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${sql.array(
          reversals.map(({ refundId }) => refundId),
          "uuid",
        )},
        ${sql.array(
          reversals.map(({ registrationId }) => registrationId),
          "uuid",
        )},
        ${sql.array(
          reversals.map(({ count }) => count),
          "int8",
        )}
      ) AS given (refund_id, registration_id, count)
    ),
    updated AS (
      UPDATE registration
      SET refunded_count = refunded_count + reversed.count, ordered_count = ${keptOrderedCount}
      FROM reversed
      WHERE registration.id = reversed.registration_id
    )
    INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
    SELECT refund_id, registration_id, ${accountId}, count, ${reason}, ${now}, ${now}
    FROM reversed
  `);
};

const idRow = z.strictObject({ id: z.uuid() });

/** The condition that a planting order of the owner has a public id and a region. Null matches every order. */
const isSelectedOrder = (
  owner: AccountMode,
  { projectPublicId, region }: Pick<EvidenceSelection, "projectPublicId" | "region">,
): FragmentSqlToken => sql.fragment`
  planting_order.account_id = ${owner.accountId}
  AND planting_order.mode = ${owner.mode}
  AND (${projectPublicId}::text IS NULL OR ${shownOrderPublicId} = ${projectPublicId})
  AND (
    ${region}::text IS NULL
    OR EXISTS (
      SELECT
      FROM jsonb_array_elements(planting_order.site_shares) AS share
      WHERE lower(share ->> 'region') = lower(${region})
    )
  )
`;

/** So many are compared before the orders are searched, of which a store can have tens of thousands. */
const RECENT_TREES = 200;

/**
 * Returns the id of the newest tree registration of the owner that matches, or null. One that was refunded in full is
 * found only by its id.
 */
export const findMatchingTreeId = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  { id, until, projectPublicId, region }: EvidenceSelection,
): Promise<string | null> => {
  const trees: Owner = { ...owner, kind: PLANTED_KIND };
  const isInTime =
    until === null
      ? sql.fragment`TRUE`
      : sql.fragment`registration.created_at < ${timestamp(until)}`;
  const isStanding = sql.fragment`
    registration.unit_price_cents IS NOT NULL AND registration.refunded_count < registration.count
  `;
  const newestFirst = sql.fragment`ORDER BY registration.created_at DESC, registration.id DESC LIMIT 1`;
  const isSelected = isSelectedOrder(owner, { projectPublicId, region });
  const hasOrder = projectPublicId !== null || region !== null;
  // The OFFSET makes it a look-up for each tree in its order, which ends with the first match.
  const inSelectedOrder = hasOrder
    ? sql.fragment`
        CROSS JOIN LATERAL (
          SELECT * FROM planting_order WHERE planting_order.id = registration.planting_order_id OFFSET 0
        ) AS planting_order
        WHERE ${isSelected}
      `
    : sql.fragment``;
  if (id !== null) {
    return db.maybeOneFirst(sql.type(idRow)`
      SELECT registration.id
      FROM (
        SELECT *
        FROM registration
        WHERE ${ownedWithId("registration", trees, id)} AND ${isInTime}
      ) AS registration
      ${inSelectedOrder}
      ${newestFirst}
    `);
  }
  const recent = await db.maybeOneFirst(sql.type(idRow)`
    SELECT registration.id
    FROM (
      SELECT registration.id, registration.created_at, registration.planting_order_id
      FROM registration
      WHERE ${ownedBy("registration", trees)} AND ${isStanding} AND ${isInTime}
      ORDER BY registration.created_at DESC, registration.id DESC
      LIMIT ${RECENT_TREES}
    ) AS registration
    ${inSelectedOrder}
    ${newestFirst}
  `);
  if (recent !== null || !hasOrder) {
    return recent;
  }
  // By orders: any number of newer trees can be in no order, or in others.
  return db.maybeOneFirst(sql.type(idRow)`
    SELECT registration.id
    FROM planting_order
    CROSS JOIN LATERAL (
      SELECT registration.id, registration.created_at
      FROM registration
      WHERE registration.planting_order_id = planting_order.id AND ${isStanding} AND ${isInTime}
      ${newestFirst}
    ) AS registration
    WHERE ${isSelected}
    ${newestFirst}
  `);
};
