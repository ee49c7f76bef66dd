import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../domain/accounts.ts";
import type { EvidenceSelection } from "../domain/storeEvidence.ts";
import { sql } from "./sql.ts";

/** The newest of the owner's tree registrations that the selection leaves, wholly refunded ones only by their id; orders count only where they are asked for. */
export const findSelectedTree = (
  db: CommonQueryMethods,
  owner: AccountMode,
  { id, from, projectPublicId, region }: EvidenceSelection,
): Promise<string | null> => {
  const conditions = [
    sql.fragment`registration.account_id = ${owner.accountId}`,
    sql.fragment`registration.mode = ${owner.mode}`,
    sql.fragment`registration.kind = 'tree'`,
    // Who asks for a record by its id gets it; who asks for the newest asks for trees that stand.
    id === null
      ? sql.fragment`registration.unit_price_cents IS NOT NULL AND registration.refunded_count < registration.count`
      : sql.fragment`registration.id = ${id}`,
    ...(from === null
      ? []
      : from.isIncluded
        ? [sql.fragment`registration.created_at <= ${from.instant}::timestamptz`]
        : [sql.fragment`registration.created_at < ${from.instant}::timestamptz`]),
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
