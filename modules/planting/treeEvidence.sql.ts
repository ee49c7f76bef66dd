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
import { columnsOf, safeInteger, sql } from "../../db/sql.ts";

const registrationColumns = z.strictObject({
  id: z.uuid(),
  importedId: z.string().nullable(),
  createdAt: z.date(),
  count: safeInteger,
  fractionalCount: z.number(),
  attribution: z.string(),
  refundedCount: safeInteger,
});

/** Null until the registration is in an order. */
const orderColumns = z.strictObject({
  importedFrom: z.string().nullable(),
  partner: z.string().nullable(),
  partnerName: z.string().nullable(),
  timeline: z.enum(TIMELINE_SHAPES).nullable(),
  stage: z.enum(ORDER_STAGES).nullable(),
});

const treeRow = z.strictObject({
  /** Which of the named trees it is, counted from 0. */
  place: z.int(),
  ...registrationColumns.shape,
  position: z.string(),
  isOrderedElsewhere: z.boolean(),
  ...orderColumns.shape,
  order: orderedTrees.nullable(),
  isFinished: z.boolean(),
  region: z.string().nullable(),
  facts: acceptedFacts,
});

/**
 * Finds the tree registrations that exist of those that are named, with their orders and the facts in effect, each by primary
 * keys only, however many there are.
 */
export const listEvidenceTrees = (
  db: CommonQueryMethods,
  named: readonly (AccountMode & { readonly id: string })[],
) =>
  db.any(sql.prepared("list_evidence_trees", treeRow)`
    SELECT
      named.place,
      ${columnsOf("registration", registrationColumns)},
      ${positionColumn("registration")},
      registration.planting_order_id IS NULL AS "isOrderedElsewhere",
      ${columnsOf("planting_order", orderColumns)},
      CASE WHEN planting_order.id IS NOT NULL THEN json_build_object(
        'orderId', ${shownOrderId}, 'orderPublicId', ${shownOrderPublicId}, 'treeOrderId', registration.tree_order_id,
        'treeOrderPublicId', registration.tree_order_public_id, 'treeCount', ${orderedCount},
        'buyerName', planting_order.buyer_name
      ) END AS "order",
      planting_order.finished_at IS NOT NULL AS "isFinished",
      planting_order.site_shares -> 0 ->> 'region' AS region,
      ${factsOfOrder} AS facts
    FROM (${namedIds(
      "registration",
      named.map((tree) => ({ ...tree, kind: PLANTED_KIND })),
    )}) AS named
    CROSS JOIN LATERAL (SELECT * FROM registration WHERE registration.id = named.id LIMIT 1) AS registration
    LEFT JOIN LATERAL (SELECT * FROM planting_order WHERE ${isOrderOfTree} LIMIT 1) AS planting_order ON true
  `);
