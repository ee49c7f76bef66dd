import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { stageEvidence } from "../../domain/planting/treeEvidence.ts";
import { treeKey } from "./cachedResponses.ts";
import { orderStageColumn, safeInteger, timelineColumn } from "../columns.ts";
import { sql } from "../sql.ts";

const treeRow = z.strictObject({
  id: z.uuid(),
  createdAt: z.date(),
  count: safeInteger,
  fractionalCount: z.number(),
  attribution: z.string(),
  isRefunded: z.boolean(),
  treeOrderId: safeInteger.nullable(),
  orderedCount: safeInteger.nullable(),
  orderId: z.int().nullable(),
  orderPublicId: z.string().nullable(),
  partnerName: z.string().nullable(),
  buyerName: z.string().nullable(),
  timeline: timelineColumn.nullable(),
  stage: orderStageColumn.nullable(),
  isFinished: z.boolean(),
  revision: z.int(),
  region: z.string().nullable(),
  cachedBody: z.string().nullable(),
  cachedAt: z.date().nullable(),
});

/** A tree registration with its order, and its answer where a good one is kept. */
export type EvidenceTree = Readonly<z.output<typeof treeRow>>;

/** Whether all trees of a registration were refunded. */
const isRefunded = sql.fragment`registration.refunded_count >= registration.count`;

/** What an answer shows: the order's milestones, or while there is no order whether it will ever have one. */
const revision = sql.fragment`coalesce(planting_order.revision, (${isRefunded})::integer)`;

/** Four look-ups by primary key in one round trip. */
export const findEvidenceTree = (
  db: CommonQueryMethods,
  owner: AccountMode,
  registrationId: string,
  baseUrl: string,
  now: Date,
): Promise<EvidenceTree | null> =>
  db.maybeOne(sql.type(treeRow)`
    SELECT
      registration.id,
      registration.created_at AS "createdAt",
      registration.count,
      registration.fractional_count AS "fractionalCount",
      registration.attribution,
      ${isRefunded} AS "isRefunded",
      registration.tree_order_id AS "treeOrderId",
      registration.ordered_count AS "orderedCount",
      planting_order.id AS "orderId",
      planting_order.public_id AS "orderPublicId",
      planting_order.partner_name AS "partnerName",
      planting_order.buyer_name AS "buyerName",
      planting_order.timeline,
      planting_order.stage,
      planting_order.finished_at IS NOT NULL AS "isFinished",
      ${revision} AS revision,
      planting_order.site_shares -> 0 ->> 'region' AS region,
      cached_response.body AS "cachedBody",
      cached_response.stored_at AS "cachedAt"
    FROM registration
    LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
    LEFT JOIN cached_response
      ON cached_response.key = ${treeKey(registrationId)}
      -- An answer of before the last milestone, or with addresses of before a move, is as good as none.
      AND cached_response.revision = ${revision}
      AND cached_response.base_url = ${baseUrl}
      AND cached_response.expires_at > ${now.toISOString()}::timestamptz
    WHERE registration.id = ${registrationId}
      AND registration.account_id = ${owner.accountId}
      AND registration.mode = ${owner.mode}
      AND registration.kind = 'tree'
  `);

const stageRow = z.discriminatedUnion("stage", [
  z.strictObject({
    stage: z.literal("funds_distributed"),
    occurredAt: z.date(),
    evidence: z.null(),
  }),
  z.strictObject({
    stage: z.literal("allocated"),
    occurredAt: z.date(),
    evidence: stageEvidence.allocated,
  }),
  z.strictObject({
    stage: z.literal("planted"),
    occurredAt: z.date(),
    evidence: stageEvidence.planted,
  }),
  z.strictObject({
    stage: z.literal("planted_and_verified"),
    occurredAt: z.date(),
    evidence: stageEvidence.planted_and_verified,
  }),
]);

/** The stages that an order has reached, with what they show. */
export const listReachedStages = (
  db: CommonQueryMethods,
  orderId: number,
): Promise<readonly z.output<typeof stageRow>[]> =>
  db.any(sql.type(stageRow)`
    SELECT stage, occurred_at AS "occurredAt", evidence
    FROM planting_fact
    WHERE order_id = ${orderId} AND state = 'accepted'
  `);
