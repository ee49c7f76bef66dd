import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { acceptedFacts } from "./fact.rules.ts";
import { ORDER_STAGES } from "./order.rules.ts";
import { orderedTrees } from "./timeline.rules.ts";
import { TIMELINE_SHAPES } from "../../runtime/config/partnerKinds.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import {
  factsOfOrder,
  isOrderOfTree,
  orderedCount,
  shownOrderId,
  shownOrderPublicId,
} from "./orders.sql.ts";
import { namedIds } from "../records/ownedRecords.sql.ts";
import { positionColumn } from "../records/listPositions.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";

const treeRow = z.strictObject({
  /** Which of the named trees it is, counted from 0. */
  place: z.int(),
  id: z.uuid(),
  importedId: z.string().nullable(),
  createdAt: z.date(),
  position: z.string(),
  count: safeInteger,
  fractionalCount: z.number(),
  attribution: z.string(),
  refundedCount: safeInteger,
  isOrderedElsewhere: z.boolean(),
  /** Null until the registration is in one. */
  order: orderedTrees.nullable(),
  importedFrom: z.string().nullable(),
  partner: z.string().nullable(),
  partnerName: z.string().nullable(),
  timeline: z.enum(TIMELINE_SHAPES).nullable(),
  stage: z.enum(ORDER_STAGES).nullable(),
  isFinished: z.boolean(),
  region: z.string().nullable(),
  facts: acceptedFacts,
});

/** A tree registration with its order and the facts in effect. */
export type EvidenceTree = Readonly<z.output<typeof treeRow>>;

/** Finds the registrations that exist of those that are named, each by primary keys only, however many there are. */
export const listEvidenceTrees = (
  db: CommonQueryMethods,
  named: readonly (AccountMode & { readonly id: string })[],
): Promise<readonly EvidenceTree[]> =>
  db.any(sql.prepared("list_evidence_trees", treeRow)`
    SELECT
      named.place,
      registration.id,
      registration.imported_id AS "importedId",
      registration.created_at AS "createdAt",
      ${positionColumn("registration")},
      registration.count,
      registration.fractional_count AS "fractionalCount",
      registration.attribution,
      registration.refunded_count AS "refundedCount",
      registration.planting_order_id IS NULL AS "isOrderedElsewhere",
      CASE WHEN planting_order.id IS NOT NULL THEN json_build_object(
        'orderId', ${shownOrderId}, 'orderPublicId', ${shownOrderPublicId}, 'treeOrderId', registration.tree_order_id,
        'treeOrderPublicId', registration.tree_order_public_id, 'treeCount', ${orderedCount},
        'buyerName', planting_order.buyer_name
      ) END AS "order",
      planting_order.imported_from AS "importedFrom",
      planting_order.partner,
      planting_order.partner_name AS "partnerName",
      planting_order.timeline,
      planting_order.stage,
      planting_order.finished_at IS NOT NULL AS "isFinished",
      planting_order.site_shares -> 0 ->> 'region' AS region,
      ${factsOfOrder} AS facts
    FROM (${namedIds(
      "registration",
      named.map((tree) => ({ ...tree, kind: PLANTED_KIND })),
    )}) AS named
    CROSS JOIN LATERAL (
      SELECT * FROM registration WHERE registration.id = named.id LIMIT 1
    ) AS registration
    LEFT JOIN LATERAL (
      SELECT * FROM planting_order WHERE ${isOrderOfTree} LIMIT 1
    ) AS planting_order ON true
  `);
