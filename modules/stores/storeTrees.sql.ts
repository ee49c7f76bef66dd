import type { CommonQueryMethods } from "slonik";
import { allOf, idRow, sql, timestamp } from "../../db/sql.ts";
import { shownOrderPublicId } from "../planting/orders.sql.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";

/** Which tree registration a store wants evidence of. All conditions must hold; null is no condition. */
export type EvidenceSelection = {
  readonly id: string | null;
  /** The newest registration before this time. */
  readonly until: Date | null;
  readonly projectPublicId: string | null;
  /** The normalized region of the planting site, in any case. */
  readonly region: string | null;
};

/**
 * Returns the id of the newest tree registration of the owner that matches, or null. One that was refunded in full is
 * found only by its id.
 */
export const findMatchingTreeId = (
  db: CommonQueryMethods,
  owner: AccountMode,
  { id, until, projectPublicId, region }: EvidenceSelection,
) => {
  const trees: Owner = { ...owner, kind: PLANTED_KIND };
  const isInTime = until !== null && sql.fragment`registration.created_at < ${timestamp(until)}`;
  const isStanding = sql.fragment`
    registration.unit_price_cents IS NOT NULL AND registration.refunded_count < registration.count
  `;
  const newest = sql.fragment`ORDER BY registration.created_at DESC, registration.id DESC LIMIT 1`;
  const isSelectedOrder = sql.fragment`
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
  const hasOrder = projectPublicId !== null || region !== null;
  if (id === null && hasOrder) {
    // By orders: any number of newer trees can be in no order, or in others.
    return db.maybeOneFirst(sql.type(idRow)`
      SELECT registration.id
      FROM planting_order
      CROSS JOIN LATERAL (
        SELECT registration.id, registration.created_at
        FROM registration
        WHERE registration.planting_order_id = planting_order.id AND ${allOf(isStanding, isInTime)}
        ${newest}
      ) AS registration
      WHERE ${isSelectedOrder}
      ${newest}
    `);
  }
  const isInOrder =
    hasOrder &&
    sql.fragment`EXISTS (
      SELECT FROM planting_order WHERE planting_order.id = registration.planting_order_id AND ${isSelectedOrder}
    )`;
  const isCandidate =
    id === null
      ? sql.fragment`${ownedBy("registration", trees)} AND ${isStanding}`
      : ownedWithId("registration", trees, id);
  return db.maybeOneFirst(sql.type(idRow)`
    SELECT registration.id
    FROM registration
    WHERE ${allOf(isCandidate, isInTime, isInOrder)}
    ${newest}
  `);
};
