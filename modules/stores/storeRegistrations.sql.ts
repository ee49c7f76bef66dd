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
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { joinedOrders, lockedNextOrder, treeOrderId } from "../planting/nextOrders.sql.ts";
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

/**
 * Defines queries that insert registrations of stores, as parts of a statement. They are prepaid, so they have no usage
 * facts.
 */
export const registrationInserts = (
  registrations: readonly StoreRegistration[],
): FragmentSqlToken => sql.fragment`
  given_registration AS MATERIALIZED (
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
  ${joinedOrders("given_registration")},
  inserted_registration AS (
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, tree_order_id
    )
    SELECT
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, ${treeOrderId}
    FROM given_registration
    LEFT JOIN joined_order USING (account_id, mode, kind)
  )
`;

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
  unitPriceCents: safeInteger,
  /** Null if another transaction has locked the record. */
  remaining: safeInteger.nullable(),
  /** Whether it is in a planting order that is created, or may be meanwhile. */
  isOrdered: z.boolean(),
});

/** A record with units that can still be reversed. */
export type ReversibleRecord = Readonly<z.output<typeof reversibleRow>>;

/** Of statements that differ by what they select. A name's plan depends on the name. */
const reversibleQuery = (filter: ImpactFilter, after: ListPosition | null, isWaiting: boolean) => {
  const parts = [...Object.keys(filter).toSorted(), after && "after", isWaiting && "waiting"];
  return filter.exactName === undefined
    ? sql.prepared(`lock_reversible_${parts.filter(Boolean).join("_")}`, reversibleRow)
    : sql.type(reversibleRow);
};

/**
 * Locks a page of the records that have units left, newest first, until the transaction ends, with their orders that are not
 * created yet.
 * @param page.isWaiting whether to wait for what another transaction has locked
 */
export const lockReversible = (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  filter: ImpactFilter,
  {
    after,
    limit,
    isWaiting,
  }: {
    readonly after: ListPosition | null;
    readonly limit: number;
    readonly isWaiting: boolean;
  },
): Promise<readonly ReversibleRecord[]> =>
  transaction.any(reversibleQuery(filter, after, isWaiting)`
    SELECT
      newest.id,
      newest.created_at AS "createdAt",
      newest.position,
      newest.unit_price_cents AS "unitPriceCents",
      locked.remaining,
      locked.planting_order_id IS NOT NULL AND next_order.id IS NULL AS "isOrdered"
    FROM (
      SELECT
        registration.id,
        registration.created_at,
        ${positionColumn("registration")},
        registration.unit_price_cents
      FROM registration
      WHERE ${isFiltered("registration", owner, filter)}
        AND registration.unit_price_cents IS NOT NULL
        AND registration.refunded_count < registration.count
        AND ${olderThan("registration", after)}
      ORDER BY registration.created_at DESC, registration.id DESC
      LIMIT ${limit}
    ) AS newest
    LEFT JOIN LATERAL (
      SELECT
        registration.count - registration.refunded_count AS remaining,
        registration.planting_order_id
      FROM registration
      WHERE registration.id = newest.id
      FOR UPDATE ${isWaiting ? sql.fragment`` : sql.fragment`SKIP LOCKED`}
    ) AS locked ON TRUE
    LEFT JOIN LATERAL ${lockedNextOrder(sql.identifier(["locked", "planting_order_id"]), isWaiting)} AS next_order ON TRUE
    ORDER BY newest.created_at DESC, newest.id DESC
  `);

/** The reversed units of one record. */
export type NewReversal = Owner & {
  readonly refundId: string;
  readonly registrationId: string;
  readonly registeredAt: Date;
  readonly count: number;
  readonly reason: string | null;
  readonly reversedAt: Date;
};

/**
 * Defines queries that subtract units from their records and insert the refunds as dispatched, as parts of a statement. They
 * have no usage to report to a processor.
 */
export const reversalInserts = (
  reversals: readonly NewReversal[],
): FragmentSqlToken => sql.fragment`
  reversed AS MATERIALIZED (
    SELECT
      (value ->> 0)::uuid AS refund_id, (value ->> 1)::uuid AS registration_id, (value ->> 2)::uuid AS account_id,
      (value ->> 3)::bigint AS count, value ->> 4 AS reason, (value ->> 5)::timestamptz AS reversed_at
    FROM json_array_elements(${JSON.stringify(
      reversals.map(({ refundId, registrationId, accountId, count, reason, reversedAt }) => [
        refundId,
        registrationId,
        accountId,
        count,
        reason,
        reversedAt,
      ]),
    )}) AS value
  ),
  reversed_registration AS (
    UPDATE registration
    SET refunded_count = refunded_count + reversed.count, ordered_count = ${keptOrderedCount}
    FROM reversed
    WHERE registration.id = reversed.registration_id
  ),
  inserted_refund AS (
    INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
    SELECT refund_id, registration_id, account_id, count, reason, reversed_at, reversed_at
    FROM reversed
  )
`;

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
