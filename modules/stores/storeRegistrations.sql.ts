import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { EvidenceSelection, ImpactFilter, ImpactRecord } from "./customers.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { shownOrderPublicId } from "../planting/orders.sql.ts";
import { ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";
import { customerColumns, customerRow, isFiltered } from "./customers.sql.ts";
import { coreColumns, coreRow } from "../registrations/registrations.sql.ts";

/** A registration of a store, as its list shows it. */
export const recordRow = z.strictObject({
  ...coreRow,
  position: z.string(),
  ...customerRow,
  notes: z.string().nullable(),
});

/** The columns of `recordRow`. */
export const recordColumns = sql.fragment`
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

const newestRow = z.strictObject({
  id: z.uuid(),
  count: safeInteger,
  unitPriceCents: safeInteger,
});

/** Names the conditions of a filter, which determine the text of a statement with it. */
const conditionsOf = ({ emails = [], ...filter }: ImpactFilter): string =>
  [...Object.keys(filter), ...emails.map(() => "email")].join("_");

/** Lists the newest registrations that a store has paid for, with the units that they have left and the price of each. */
export const listNewestUnits = (
  db: CommonQueryMethods,
  owner: Owner,
  filter: ImpactFilter,
  limit: number,
): Promise<readonly Readonly<z.output<typeof newestRow>>[]> =>
  db.any(sql.prepared(`list_newest_units_${conditionsOf(filter)}`, newestRow)`
    SELECT
      registration.id,
      registration.count - registration.refunded_count AS count,
      registration.unit_price_cents AS "unitPriceCents"
    FROM registration
    WHERE ${isFiltered("registration", owner, filter)}
      AND registration.unit_price_cents IS NOT NULL
      AND registration.refunded_count < registration.count
    ORDER BY registration.created_at DESC, registration.id DESC
    LIMIT ${limit}
  `);

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
  const isCandidate =
    id === null
      ? sql.fragment`${ownedBy("registration", trees)} AND ${isStanding}`
      : ownedWithId("registration", trees, id);
  const recent = await db.maybeOneFirst(sql.type(idRow)`
    SELECT registration.id
    FROM (
      SELECT registration.id, registration.created_at, registration.planting_order_id
      FROM registration
      WHERE ${isCandidate} AND ${isInTime}
      ORDER BY registration.created_at DESC, registration.id DESC
      LIMIT ${RECENT_TREES}
    ) AS registration
    ${inSelectedOrder}
    ${newestFirst}
  `);
  if (recent !== null || id !== null || !hasOrder) {
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
