import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { EvidenceSelection } from "../../domain/stores/storeEvidence.ts";
import { sql } from "../sql.ts";

/**
 * The newest of the owner's tree registrations that fit the selection. One that was refunded in full is found only by
 * its id.
 */
export const findSelectedTree = (
  db: CommonQueryMethods,
  owner: AccountMode,
  { id, upTo, projectPublicId, region }: EvidenceSelection,
): Promise<string | null> => {
  const conditions = [
    sql.fragment`registration.account_id = ${owner.accountId}`,
    sql.fragment`registration.mode = ${owner.mode}`,
    sql.fragment`registration.kind = 'tree'`,
    // A record that is asked for by its id is found; the newest must have trees left.
    id === null
      ? sql.fragment`registration.unit_price_cents IS NOT NULL AND registration.refunded_count < registration.count`
      : sql.fragment`registration.id = ${id}`,
    ...(upTo === null
      ? []
      : upTo.isIncluded
        ? [sql.fragment`registration.created_at <= ${upTo.instant}::timestamptz`]
        : [sql.fragment`registration.created_at < ${upTo.instant}::timestamptz`]),
    ...(projectPublicId === null && region === null
      ? []
      : [
          sql.fragment`registration.planting_order_id IN (
            SELECT planting_order.id
            FROM planting_order
            WHERE planting_order.account_id = ${owner.accountId}
              AND planting_order.mode = ${owner.mode}
              AND (${projectPublicId}::text IS NULL OR planting_order.public_id = ${projectPublicId})
              AND (
                ${region}::text IS NULL
                OR EXISTS (
                  SELECT
                  FROM jsonb_array_elements(planting_order.site_shares) AS share
                  WHERE lower(share ->> 'region') = lower(${region})
                )
              )
          )`,
        ]),
  ];
  return db.maybeOneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT registration.id
    FROM registration
    WHERE ${sql.join(conditions, sql.fragment` AND `)}
    ORDER BY registration.created_at DESC, registration.id DESC
    LIMIT 1
  `);
};
