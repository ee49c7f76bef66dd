import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { ORDER_STAGES } from "./order.rules.ts";
import { TIMELINE_SHAPES } from "../../runtime/config/partnerKinds.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { AllocatedEvidence, PlantedEvidence, VerifiedEvidence } from "./evidence.rules.ts";
import type { PlantingStage } from "./order.rules.ts";
import { treeKeyColumn } from "./cachedResponses.sql.ts";
import { isOrderOfTree, orderedCount, shownOrderId, shownOrderPublicId } from "./orders.sql.ts";
import { ownedWithId } from "../records/ownedRecords.sql.ts";
import { positionColumn } from "../records/listPositions.sql.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";

const treeRow = z
  .strictObject({
    id: z.uuid(),
    importedId: z.string().nullable(),
    createdAt: z.date(),
    position: z.string(),
    count: safeInteger,
    fractionalCount: z.number(),
    attribution: z.string(),
    refundedCount: safeInteger,
    isOrderedElsewhere: z.boolean(),
    treeOrderId: safeInteger.nullable(),
    orderedCount: safeInteger,
    orderId: z.int().nullable(),
    orderPublicId: z.string().nullable(),
    importedFrom: z.string().nullable(),
    shownOrderId: safeInteger.nullable(),
    treeOrderPublicId: z.string().nullable(),
    partner: z.string().nullable(),
    partnerName: z.string().nullable(),
    buyerName: z.string().nullable(),
    timeline: z.enum(TIMELINE_SHAPES).nullable(),
    stage: z.enum(ORDER_STAGES).nullable(),
    isFinished: z.boolean(),
    revision: z.bigint(),
    region: z.string().nullable(),
    cachedBody: z.string().nullable(),
    cachedAt: z.date().nullable(),
  })
  .transform(({ cachedBody: body, cachedAt: storedAt, ...tree }) => ({
    ...tree,
    /** Null without a valid cached response. */
    cached: body !== null && storedAt !== null ? { body, storedAt } : null,
  }));

/** A tree registration with its order and its cached response. */
export type EvidenceTree = Readonly<z.output<typeof treeRow>>;

/**
 * Increases with every change of the response: neither the order's revision nor the refunded trees ever decrease, and trees
 * move only to an order with a higher revision.
 */
const revision = sql.fragment`coalesce(planting_order.revision, 0) + registration.refunded_count`;

/** Finds a registration, its order and its cached response by index lookups in one round trip. */
export const findEvidenceTree = (
  db: CommonQueryMethods,
  owner: AccountMode,
  id: string,
  baseUrl: string,
  now: Date,
): Promise<EvidenceTree | null> =>
  db.maybeOne(sql.prepared("find_tree", treeRow)`
    SELECT
      registration.id,
      registration.imported_id AS "importedId",
      registration.created_at AS "createdAt",
      ${positionColumn("registration")},
      registration.count,
      registration.fractional_count AS "fractionalCount",
      registration.attribution,
      registration.refunded_count AS "refundedCount",
      registration.planting_order_id IS NULL AS "isOrderedElsewhere",
      registration.tree_order_id AS "treeOrderId",
      ${orderedCount} AS "orderedCount",
      planting_order.id AS "orderId",
      ${shownOrderPublicId} AS "orderPublicId",
      planting_order.imported_from AS "importedFrom",
      ${shownOrderId} AS "shownOrderId",
      registration.tree_order_public_id AS "treeOrderPublicId",
      planting_order.partner,
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
    LEFT JOIN planting_order ON ${isOrderOfTree}
    LEFT JOIN cached_response
      ON cached_response.key = ${treeKeyColumn}
      -- Responses from before the last milestone, or with another base URL, are stale.
      AND cached_response.revision = ${revision}
      AND cached_response.base_url = ${baseUrl}
      AND cached_response.expires_at > ${timestamp(now)}
    WHERE ${ownedWithId("registration", { ...owner, kind: PLANTED_KIND }, id)}
  `);

const cachedTreeRow = z.strictObject({
  /** Which of the given trees it is, counted from 0. */
  position: z.int(),
  /** Differs whenever the row has been written anew. */
  version: z.string(),
  /** Null if the caller knows this version. */
  body: z.string().nullable(),
  storedAt: z.date(),
  timeline: z.enum(TIMELINE_SHAPES),
  stage: z.enum(ORDER_STAGES),
  isFinished: z.boolean(),
  partner: z.string(),
});

/** A valid cached response, and what its order says about it. */
export type CachedTree = Readonly<z.output<typeof cachedTreeRow>>;

/**
 * Lists the valid cached responses of trees, which are named by their own ids. Each is found by primary keys only, however
 * many there are.
 * @param trees with the version of the response that the caller has, or null
 */
export const listCachedTrees = (
  db: CommonQueryMethods,
  trees: readonly (AccountMode & { readonly id: string; readonly knownVersion: string | null })[],
  baseUrl: string,
  now: Date,
): Promise<readonly CachedTree[]> =>
  // Of a JSON array the planner expects the same number of elements whatever it has, so it keeps one plan.
  db.any(sql.prepared("list_cached_trees", cachedTreeRow)`
    SELECT
      given.position,
      cached_response.version,
      CASE WHEN cached_response.version IS DISTINCT FROM given.known_version THEN cached_response.body END AS body,
      cached_response.stored_at AS "storedAt",
      planting_order.timeline,
      planting_order.stage,
      planting_order.finished_at IS NOT NULL AS "isFinished",
      planting_order.partner
    FROM json_to_recordset(${JSON.stringify(
      trees.map(({ accountId, mode, id, knownVersion }, position) => ({
        position,
        account_id: accountId,
        mode,
        id,
        known_version: knownVersion,
      })),
    )}::json) AS given (position integer, account_id uuid, mode text, id uuid, known_version text)
    CROSS JOIN LATERAL (
      SELECT id, account_id, mode, kind, planting_order_id, refunded_count
      FROM registration
      WHERE registration.id = given.id
      LIMIT 1
    ) AS registration
    CROSS JOIN LATERAL (
      SELECT partner, timeline, stage, finished_at, revision
      FROM planting_order
      WHERE planting_order.id = registration.planting_order_id
      LIMIT 1
    ) AS planting_order
    CROSS JOIN LATERAL (
      -- The transaction that wrote this version of the row, and when: numbers of transactions return after a restore.
      SELECT body, stored_at, cached_response.xmin::text || ' ' || stored_at::text AS version
      FROM cached_response
      WHERE cached_response.key = ${treeKeyColumn}
        AND cached_response.revision = ${revision}
        AND cached_response.base_url = ${baseUrl}
        AND cached_response.expires_at > ${timestamp(now)}
      LIMIT 1
    ) AS cached_response
    WHERE registration.account_id = given.account_id
      AND registration.mode = given.mode
      AND registration.kind = ${PLANTED_KIND}
  `);

const allocated = z.strictObject({
  allocations: z.array(
    z.strictObject({
      allocationId: z.int(),
      allocatedAt: z.string(),
      site: z.strictObject({
        id: z.int(),
        name: z.string(),
        subsiteName: z.string(),
        organizationName: z.string(),
        latitude: z.number(),
        longitude: z.number(),
        imageUrl: z.string(),
      }),
      crew: z.strictObject({
        leader: z.string(),
        style: z.string(),
        totalMembers: z.int(),
        womenMembers: z.int(),
      }),
    }),
  ),
}) satisfies z.ZodType<AllocatedEvidence>;

const planted = z.strictObject({
  plantedAt: z.string(),
  fieldUpdateId: z.int(),
  plantingSessionId: z.int(),
  media: z.array(
    z.strictObject({
      id: z.string(),
      type: z.string(),
      url: z.string(),
      thumbnailUrl: z.string(),
      latitude: z.number(),
      longitude: z.number(),
    }),
  ),
}) satisfies z.ZodType<PlantedEvidence>;

const verified = z.strictObject({
  siteName: z.string(),
  subsiteName: z.string(),
  organizationName: z.string(),
  assessorName: z.string(),
  verifier: z.string(),
  verifiedAt: z.string(),
  sessionTotalPlanted: z.int(),
  species: z.array(z.string()),
  imageUrl: z.string(),
  allocationId: z.int(),
  fieldUpdateId: z.int(),
  plantingSessionId: z.int(),
  latitude: z.number(),
  longitude: z.number(),
  photos: z.array(z.string()),
}) satisfies z.ZodType<VerifiedEvidence>;

const reached = <Stage extends PlantingStage, Evidence extends z.ZodType>(
  stage: Stage,
  evidence: Evidence,
) => z.strictObject({ stage: z.literal(stage), occurredAt: z.date(), evidence });

const stageRow = z.discriminatedUnion("stage", [
  reached("funds_distributed", z.null()),
  reached("allocated", allocated),
  reached("planted", planted),
  reached("planted_and_verified", verified),
]);

/** Lists the stages that an order has reached, with their proof. */
export const listReachedStages = (
  db: CommonQueryMethods,
  orderId: number,
): Promise<readonly z.output<typeof stageRow>[]> =>
  db.any(sql.type(stageRow)`
    SELECT stage, occurred_at AS "occurredAt", evidence
    FROM planting_fact
    WHERE order_id = ${orderId} AND state = 'accepted'
  `);
