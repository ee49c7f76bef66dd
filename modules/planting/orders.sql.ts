import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { ORDER_STAGES } from "./order.rules.ts";
import { TIMELINE_SHAPES } from "../../runtime/config/partnerKinds.rules.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { FOREST_TYPES } from "./impactFactors.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { safeInteger, nothing, sql, timestamp } from "../../db/sql.ts";
import { newestOf } from "../records/ownedRecords.sql.ts";

// This file reads and assigns registrations itself, because each query combines them with their planting order.

const siteShares = z.array(
  z.strictObject({
    siteId: z.int(),
    region: z.string(),
    forestType: z.enum(FOREST_TYPES),
    weight: z.number(),
    factorId: z.string().nullable(),
  }),
);

const orderRow = z.strictObject({
  id: z.int(),
  publicId: z.string(),
  shownId: safeInteger,
  shownPublicId: z.string(),
  accountId: z.uuid(),
  mode: modeColumn,
  partner: z.string(),
  partnerName: z.string(),
  buyerName: z.string(),
  timeline: z.enum(TIMELINE_SHAPES),
  treeCount: safeInteger,
  refundedCount: safeInteger,
  partnerReference: z.string().nullable(),
  stage: z.enum(ORDER_STAGES),
  revision: z.int(),
  siteShares,
  createdAt: z.date(),
  plantedAt: z.date().nullable(),
  verifiedAt: z.date().nullable(),
});

/** The ids by which clients know an order: those of the system that it was imported from, if it was. */
export const shownOrderId = sql.fragment`coalesce(planting_order.imported_order_id, planting_order.id)`;
export const shownOrderPublicId = sql.fragment`coalesce(planting_order.imported_public_id, planting_order.public_id)`;

const columns = sql.fragment`
  planting_order.id,
  planting_order.public_id AS "publicId",
  ${shownOrderId} AS "shownId",
  ${shownOrderPublicId} AS "shownPublicId",
  planting_order.account_id AS "accountId",
  planting_order.mode,
  planting_order.partner,
  planting_order.partner_name AS "partnerName",
  planting_order.buyer_name AS "buyerName",
  planting_order.timeline,
  planting_order.tree_count AS "treeCount",
  planting_order.refunded_count AS "refundedCount",
  planting_order.partner_reference AS "partnerReference",
  planting_order.stage,
  planting_order.revision,
  planting_order.site_shares AS "siteShares",
  planting_order.created_at AS "createdAt",
  planting_order.planted_at AS "plantedAt",
  planting_order.verified_at AS "verifiedAt"
`;

/** The condition of the index registration_unordered. */
const isUnordered = sql.fragment`
  kind = ${sql.literalValue(PLANTED_KIND)} AND planting_order_id IS NULL AND refunded_count < count AND NOT is_ordered_elsewhere
`;

const waitingAccountRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  name: z.string(),
  lastOrderId: z.int().nullable(),
});

/**
 * Lists the accounts and modes with trees that are in no order, sorted, each with its last order. Costs two index probes
 * each, however many trees wait.
 * @param after the last one of the previous page
 */
export const listAccountsWithUnorderedTrees = (
  db: CommonQueryMethods,
  after: AccountMode | null,
  limit: number,
): Promise<readonly z.output<typeof waitingAccountRow>[]> =>
  db.any(sql.type(waitingAccountRow)`
    WITH RECURSIVE owner AS (
      (
        SELECT account_id, mode, 1 AS place
        FROM registration
        WHERE ${isUnordered}
        ${after ? sql.fragment`AND (account_id, mode) > (${after.accountId}::uuid, ${after.mode})` : sql.fragment``}
        ORDER BY account_id, mode
        LIMIT 1
      )
      UNION ALL
      SELECT following.account_id, following.mode, owner.place + 1
      FROM owner
      CROSS JOIN LATERAL (
        SELECT account_id, mode
        FROM registration
        WHERE ${isUnordered}
          AND (registration.account_id, registration.mode) > (owner.account_id, owner.mode)
        ORDER BY account_id, mode
        LIMIT 1
      ) AS following
      -- The outer query sorts all rows, so its LIMIT would not stop the recursion.
      WHERE owner.place < ${limit}
    )
    SELECT
      owner.account_id AS "accountId",
      owner.mode,
      account.name,
      (
        -- As in newestOf: with an equality, the primary key may seem cheaper.
        SELECT id
        FROM planting_order
        WHERE (planting_order.account_id, planting_order.id) <= (owner.account_id, 2147483647)
          AND planting_order.account_id >= owner.account_id
          AND planting_order.mode = owner.mode
        ORDER BY planting_order.account_id DESC, planting_order.id DESC
        LIMIT 1
      ) AS "lastOrderId"
    FROM owner
    JOIN account ON account.id = owner.account_id
    ORDER BY owner.account_id, owner.mode
  `);

type NewPlantingOrder = Pick<
  PlantingOrder,
  | "publicId"
  | "accountId"
  | "mode"
  | "partner"
  | "partnerName"
  | "buyerName"
  | "timeline"
  | "createdAt"
>;

const insertedRow = z.strictObject({
  id: z.int(),
  registrations: z.int(),
  lastRegistrationId: z.uuid(),
});

/**
 * Inserts an order of an account's oldest trees that are in no order. Registrations that are being refunded are skipped.
 * @param after the last registration of the account's last order, so that those of earlier orders are not read again; null
 *   for the first order of a run
 * @returns null if there are no such trees
 */
export const insertPlantingOrder = (
  transaction: DatabaseTransactionConnection,
  order: NewPlantingOrder,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<z.output<typeof insertedRow> | null> =>
  transaction.maybeOne(sql.type(insertedRow)`
    WITH chosen AS MATERIALIZED (
      SELECT id
      FROM registration
      WHERE account_id = ${order.accountId}
        AND mode = ${order.mode}
        AND ${isUnordered}
        ${after === null ? sql.fragment`` : sql.fragment`AND id > ${after}`}
      ORDER BY id
      LIMIT ${limit}
      FOR UPDATE SKIP LOCKED
    ),
    next_order AS MATERIALIZED (
      SELECT nextval(pg_get_serial_sequence('planting_order', 'id'))::integer AS id
      WHERE EXISTS (SELECT FROM chosen)
    ),
    ordered AS (
      UPDATE registration
      SET
        planting_order_id = next_order.id,
        tree_order_id = nextval('tree_order_id'),
        ordered_count = registration.count - registration.refunded_count
      FROM chosen, next_order
      WHERE registration.id = chosen.id
      RETURNING registration.ordered_count
    ),
    inserted AS (
      INSERT INTO planting_order
        (id, public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at)
      OVERRIDING SYSTEM VALUE
      SELECT
        next_order.id, ${order.publicId}, ${order.accountId}, ${order.mode}, ${order.partner}, ${order.partnerName},
        ${order.buyerName}, ${order.timeline}, (SELECT sum(ordered_count) FROM ordered)::bigint,
        ${timestamp(order.createdAt)}
      FROM next_order
      RETURNING id
    )
    SELECT
      inserted.id,
      (SELECT count(*) FROM ordered)::integer AS registrations,
      (SELECT id FROM chosen ORDER BY id DESC LIMIT 1) AS "lastRegistrationId"
    FROM inserted
  `);

export const findPlantingOrder = (
  db: CommonQueryMethods,
  id: number,
): Promise<PlantingOrder | null> =>
  db.maybeOne(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE id = ${id}
  `);

export const findPlantingOrderByPublicId = (
  db: CommonQueryMethods,
  publicId: string,
): Promise<PlantingOrder | null> =>
  db.maybeOne(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE public_id = ${publicId}
  `);

/**
 * Lists the orders that have an id, of the ids that operators and clients see. Several imported orders may have the same
 * ones, which may also be those of an order that was placed here.
 */
export const listPlantingOrdersWithId = (
  db: CommonQueryMethods,
  given: string,
  limit: number,
): Promise<readonly PlantingOrder[]> =>
  db.any(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE id IN (
      SELECT id FROM planting_order WHERE id = ${/^\d{1,9}$/u.test(given) ? Number(given) : null}::integer
      UNION ALL
      SELECT id FROM planting_order WHERE public_id = ${given}
      UNION ALL
      -- Imported orders have an index of their keys only.
      SELECT id
      FROM planting_order
      WHERE imported_key IS NOT NULL
        AND (imported_order_id::text = ${given} OR imported_public_id = ${given})
    )
    ORDER BY id
    LIMIT ${limit}
  `);

export const lockPlantingOrder = (
  transaction: DatabaseTransactionConnection,
  id: number,
): Promise<PlantingOrder | null> =>
  transaction.maybeOne(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE id = ${id}
    FOR UPDATE
  `);

/** Refunded trees of one registration. */
export type RefundedTrees = { readonly registrationId: string; readonly count: number };

const refundedOrderRow = orderRow
  .extend({ count: safeInteger })
  .transform(({ count, ...order }) => ({ order, count }));

/**
 * Finds and locks the orders that contain registrations, always in the same order, with the trees of each that are
 * refunded.
 */
export const lockPlantingOrdersOf = (
  transaction: DatabaseTransactionConnection,
  refunded: readonly RefundedTrees[],
): Promise<readonly { readonly order: PlantingOrder; readonly count: number }[]> =>
  transaction.any(sql.prepared("lock_planting_orders_of", refundedOrderRow)`
    WITH refunded AS MATERIALIZED (
      SELECT registration.planting_order_id AS order_id, sum(given.count)::bigint AS count
      -- The planner does not see the arrays, so that it keeps its plan whatever their length.
      FROM unnest(
        (SELECT ${sql.array(
          refunded.map(({ registrationId }) => registrationId),
          "uuid",
        )}),
        (SELECT ${sql.array(
          refunded.map(({ count }) => count),
          "int8",
        )})
      ) AS given (id, count)
      JOIN registration ON registration.id = given.id
      WHERE registration.planting_order_id IS NOT NULL
      GROUP BY registration.planting_order_id
    )
    SELECT ${columns}, refunded.count
    FROM planting_order
    JOIN refunded ON refunded.order_id = planting_order.id
    ORDER BY planting_order.id
    FOR UPDATE OF planting_order
  `);

/** Stores what facts have changed of an order. The new revision makes cached responses stale. */
export const updatePlantingOrderProgress = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET
      stage = ${order.stage},
      timeline = ${order.timeline},
      partner_reference = ${order.partnerReference},
      site_shares = ${sql.jsonb(order.siteShares.map((share) => ({ ...share })))},
      planted_at = ${timestamp(order.plantedAt)},
      verified_at = ${timestamp(order.verifiedAt)},
      revision = revision + 1
    WHERE id = ${order.id}
  `);
};

export const addRefundedToPlantingOrders = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly { readonly id: number; readonly count: number }[],
): Promise<void> => {
  await transaction.query(sql.prepared("add_refunded_to_planting_orders", nothing)`
    UPDATE planting_order
    SET refunded_count = refunded_count + refunded.count
    FROM json_to_recordset(${JSON.stringify(refunded)}) AS refunded (id integer, count bigint)
    WHERE planting_order.id = refunded.id
  `);
};

type PlantingOrderFilter = {
  readonly accountId?: string;
  readonly stage?: PlantingOrder["stage"];
  /** Only orders with contradictions. */
  readonly contradicted?: boolean;
  readonly limit: number;
};

/** Lists orders, newest first. */
export const listPlantingOrders = (
  db: CommonQueryMethods,
  filter: PlantingOrderFilter,
): Promise<readonly PlantingOrder[]> => {
  const newest = newestOf(filter.accountId ?? null, null);
  return db.any(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE ${newest.condition}
      ${filter.stage === undefined ? sql.fragment`` : sql.fragment`AND stage = ${filter.stage}`}
      ${
        filter.contradicted === true
          ? sql.fragment`AND EXISTS (
              SELECT FROM planting_fact
              WHERE planting_fact.order_id = planting_order.id AND planting_fact.state = 'contradiction'
            )`
          : sql.fragment``
      }
    ${newest.order}
    LIMIT ${filter.limit}
  `);
};

/** Deletes orders without registrations, with everything that was reported about them. */
export const deletePlantingOrders = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly number[],
): Promise<void> => {
  const orders = sql.array([...ids], "int4");
  for (const table of ["planting_media", "planting_fact"]) {
    await transaction.query(sql.typeAlias("void")`
      DELETE FROM ${sql.identifier([table])} WHERE order_id = ANY(${orders})
    `);
  }
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM planting_order WHERE id = ANY(${orders})
  `);
};
