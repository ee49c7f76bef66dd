import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { ORDER_STAGES } from "./order.rules.ts";
import type { OrderStage } from "./order.rules.ts";
import { TIMELINE_SHAPES } from "../../runtime/config/partnerKinds.rules.ts";
import { siteShare } from "./tally.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { allOf, columnsOf, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { newestOf } from "../records/ownedRecords.sql.ts";

const orderRow = z.strictObject({
  id: z.int(),
  /** The id that partners and operators use. */
  publicId: z.string(),
  accountId: z.uuid(),
  mode: modeColumn,
  partner: z.string(),
  partnerName: z.string(),
  buyerName: z.string(),
  timeline: z.enum(TIMELINE_SHAPES),
  treeCount: safeInteger,
  /** Trees refunded after the order was created. */
  refundedCount: safeInteger,
  /** The partner's name for the order. */
  partnerReference: z.string().nullable(),
  stage: z.enum(ORDER_STAGES),
  siteShares: z.array(siteShare).readonly(),
  createdAt: z.date(),
  plantedAt: z.date().nullable(),
  verifiedAt: z.date().nullable(),
  /** The ids that clients see in evidence and events: of an imported order, those of the other system. */
  shownId: safeInteger,
  shownPublicId: z.string(),
});

export type PlantingOrder = Readonly<z.output<typeof orderRow>>;

export const shownOrderId = sql.fragment`coalesce(planting_order.imported_order_id, planting_order.id)`;
export const shownOrderPublicId = sql.fragment`coalesce(planting_order.imported_public_id, planting_order.public_id)`;

/** How many trees of a registration its order had when it was created. */
export const orderedCount = sql.fragment`
  coalesce(registration.ordered_count, registration.count - registration.refunded_count)
`;

/** The condition that an order has trees of a registration. Those that were all refunded before it was created are not in it. */
export const isOrderOfTree = sql.fragment`
  planting_order.id = registration.planting_order_id AND ${orderedCount} > 0
`;

/** The accepted facts of `planting_order`, as an object by their stages. */
export const factsOfOrder = sql.fragment`(
  SELECT coalesce(jsonb_object_agg(planting_fact.stage, planting_fact.content), '{}')
  FROM planting_fact
  WHERE planting_fact.order_id = planting_order.id AND planting_fact.state = 'accepted'
)`;

/**
 * The value of `ordered_count` for the update that refunds trees of a registration. Until the first refund after the order
 * was created, the order has all the trees that remain.
 */
export const keptOrderedCount = sql.fragment`
  CASE
    WHEN EXISTS (SELECT FROM planting_order WHERE planting_order.id = registration.planting_order_id)
    THEN ${orderedCount}
  END
`;

const columns = columnsOf("planting_order", orderRow, {
  shownId: shownOrderId,
  shownPublicId: shownOrderPublicId,
});

/** The number of an order, its public id, or one of its facts. */
type OrderName = number | string | { readonly factId: number };

const isNamed = (name: OrderName) => {
  if (typeof name === "object") {
    return sql.fragment`id = (SELECT order_id FROM planting_fact WHERE planting_fact.id = ${name.factId})`;
  }
  return typeof name === "number" ? sql.fragment`id = ${name}` : sql.fragment`public_id = ${name}`;
};

export const findPlantingOrder = (db: CommonQueryMethods, name: OrderName) =>
  db.maybeOne(sql.type(orderRow)`SELECT ${columns} FROM planting_order WHERE ${isNamed(name)}`);

export const lockPlantingOrder = (transaction: DatabaseTransactionConnection, name: OrderName) =>
  transaction.maybeOne(sql.type(orderRow)`
    SELECT ${columns} FROM planting_order WHERE ${isNamed(name)} FOR UPDATE
  `);

export type RefundedTrees = { readonly registrationId: string; readonly count: number };

const refundedOrderRow = orderRow
  .extend({ count: safeInteger })
  .transform(({ count, ...order }) => ({ order, count }));

/**
 * Adds refunded trees to the orders that contain them, which are locked in the same order always.
 * @returns the orders after it, and how many trees of each were refunded
 */
export const addRefundedToPlantingOrders = (
  transaction: DatabaseTransactionConnection,
  refunded: readonly RefundedTrees[],
) =>
  transaction.any(sql.prepared("add_refunded_to_planting_orders", refundedOrderRow)`
    WITH given AS MATERIALIZED (
      ${jsonRows({ registrationId: "uuid", count: "int8" }, refunded)}
    ),
    refunded AS MATERIALIZED (
      SELECT registration.planting_order_id AS order_id, sum(given.count)::bigint AS count
      FROM given
      JOIN registration ON registration.id = given.registration_id
      -- The planner expects few ids in an array, so that it does not read the whole table.
      WHERE registration.id = ANY(ARRAY(SELECT registration_id FROM given))
        AND registration.planting_order_id IS NOT NULL
      GROUP BY registration.planting_order_id
    ),
    locked AS MATERIALIZED (
      SELECT planting_order.id, refunded.count
      FROM planting_order
      JOIN refunded ON refunded.order_id = planting_order.id
      ORDER BY planting_order.id
      FOR UPDATE OF planting_order
    )
    UPDATE planting_order
    SET refunded_count = planting_order.refunded_count + locked.count
    FROM locked
    WHERE planting_order.id = locked.id
    RETURNING ${columns}, locked.count
  `);

/** Stores what facts have changed of an order. */
export const updatePlantingOrderProgress = (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET
      stage = ${order.stage},
      partner_reference = ${order.partnerReference},
      site_shares = ${sql.jsonb(order.siteShares.map((share) => ({ ...share })))},
      planted_at = ${timestamp(order.plantedAt)},
      verified_at = ${timestamp(order.verifiedAt)}
    WHERE id = ${order.id}
  `);

type PlantingOrderFilter = {
  readonly accountId?: string;
  readonly stage?: PlantingOrder["stage"];
  readonly contradicted?: boolean;
  readonly limit: number;
};

export const listPlantingOrders = (db: CommonQueryMethods, filter: PlantingOrderFilter) => {
  const newest = newestOf(filter.accountId ?? null, null);
  return db.any(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE ${allOf(
      newest.condition,
      filter.stage !== undefined && sql.fragment`stage = ${filter.stage}`,
      filter.contradicted === true &&
        sql.fragment`EXISTS (
          SELECT FROM planting_fact
          WHERE planting_fact.order_id = planting_order.id AND planting_fact.state = 'contradiction'
        )`,
    )}
    ${newest.order}
    LIMIT ${filter.limit}
  `);
};

/** Deletes an order without registrations, with everything that was reported about it. */
export const deletePlantingOrder = (transaction: DatabaseTransactionConnection, id: number) =>
  transaction.query(sql.typeAlias("void")`
    WITH deleted AS (DELETE FROM planting_fact WHERE order_id = ${id})
    DELETE FROM planting_order WHERE id = ${id}
  `);

const idRow = z.strictObject({ id: z.int() });

/**
 * Lists the orders whose workflow was never started, and then unfinished ones whose workflow must be lost.
 * @param lostSince a workflow that was started or has polled since then is not lost
 */
export const listPlantingOrdersToStart = (db: CommonQueryMethods, lostSince: Date, limit: number) =>
  db.anyFirst(sql.type(idRow)`
    SELECT id
    FROM planting_order
    WHERE finished_at IS NULL AND polled_at < ${timestamp(lostSince)}
    ORDER BY polled_at, id
    LIMIT ${limit}
  `);

export const markPlantingOrdersStarted = (
  db: CommonQueryMethods,
  ids: readonly number[],
  startedAt: Date,
) =>
  db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET polled_at = ${timestamp(startedAt)}
    WHERE id = ANY(${sql.array(ids, "int4")})
  `);

const isFinishedRow = z.strictObject({ isFinished: z.boolean() });

/** Records a poll of an order, and returns whether it is finished: whether it has reached one of the final stages. */
export const markPlantingOrderPolled = (
  db: CommonQueryMethods,
  id: number,
  polledAt: Date,
  finalStages: readonly OrderStage[],
) =>
  db.oneFirst(sql.type(isFinishedRow)`
    UPDATE planting_order
    SET
      polled_at = ${timestamp(polledAt)},
      finished_at = CASE
        WHEN stage = ANY(${sql.array(finalStages, "text")}) THEN coalesce(finished_at, ${timestamp(polledAt)})
        ELSE finished_at
      END
    WHERE id = ${id}
    RETURNING finished_at IS NOT NULL AS "isFinished"
  `);

/**
 * Lets a finished order be polled again, unless it was imported. Its workflow has ended, so the order counts as one whose
 * workflow was never started: otherwise it would first have to miss polls.
 */
export const reopenPlantingOrder = (transaction: DatabaseTransactionConnection, id: number) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET finished_at = NULL, polled_at = '-infinity'
    WHERE id = ${id} AND finished_at IS NOT NULL AND imported_from IS NULL
  `);
