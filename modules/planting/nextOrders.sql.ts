import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { columnsOf, nothing, sql, timestamp } from "../../db/sql.ts";

/*
 * Orders that are not created yet. Registered trees join their account's open one in the statement that inserts them, so
 * that creating an order writes its row and no registration (ADR 20).
 *
 * The locks of the order's row:
 *
 * - Who inserts trees, or changes how many trees a registration of such an order has, holds FOR KEY SHARE until its
 *   transaction ends. Any number of transactions can.
 * - Closing the order is an update, which does not conflict with that. So clients never wait for it. A transaction that has
 *   not locked the row before finds it closed, and opens another order.
 * - Creating the order holds FOR UPDATE. It waits for the transactions that have joined, and the next statement sees all of
 *   their trees.
 */

/**
 * Queries for a statement that inserts the registrations of one of its queries, which has `account_id`, `mode` and `kind`.
 * They find or open the order of each owner of trees: `joined_order` has these columns and `planting_order_id`.
 *
 * Orders are opened sorted and before anything is inserted, and a transaction has one such statement, so that two cannot
 * deadlock.
 */
export const joinedOrders = (query: string) => sql.fragment`
  planted_owner AS MATERIALIZED (
    SELECT DISTINCT account_id, mode, kind
    FROM ${sql.identifier([query])}
    WHERE kind = ${sql.literalValue(PLANTED_KIND)}
  ),
  open_order AS MATERIALIZED (
    SELECT planted_owner.account_id, planted_owner.mode, planted_owner.kind, next_order.id
    FROM planted_owner
    CROSS JOIN LATERAL (
      SELECT id
      FROM next_planting_order
      WHERE account_id = planted_owner.account_id AND mode = planted_owner.mode AND is_open
      FOR KEY SHARE
    ) AS next_order
  ),
  opened_order AS (
    INSERT INTO next_planting_order (account_id, mode)
    SELECT account_id, mode
    FROM planted_owner
    WHERE (account_id, mode) NOT IN (SELECT account_id, mode FROM open_order)
    ORDER BY account_id, mode
    -- A concurrent statement has opened it. The update locks and returns it.
    ON CONFLICT (account_id, mode) WHERE is_open DO UPDATE SET is_open = true
    RETURNING account_id, mode, id
  ),
  joined_order AS MATERIALIZED (
    SELECT account_id, mode, kind, id AS planting_order_id FROM open_order
    UNION ALL
    SELECT account_id, mode, ${sql.literalValue(PLANTED_KIND)}, id FROM opened_order
  )
`;

/** The number of a registration's part of the `planting_order_id` that it joins. */
export const treeOrderId = sql.fragment`
  CASE WHEN planting_order_id IS NOT NULL THEN nextval('tree_order_id') END
`;

const nextOrderRow = z.strictObject({
  id: z.int(),
  accountId: z.uuid(),
  mode: modeColumn,
  buyerName: z.string(),
});

export type NextOrder = Readonly<z.output<typeof nextOrderRow>>;

/** Lists the orders that are not created yet, those first that were opened first. */
export const listNextOrders = (db: CommonQueryMethods) =>
  db.any(sql.type(nextOrderRow)`
    SELECT ${columnsOf("next_planting_order", nextOrderRow, { buyerName: sql.fragment`account.name` })}
    FROM next_planting_order
    JOIN account ON account.id = next_planting_order.account_id
    ORDER BY next_planting_order.id
  `);

export const closeNextOrder = (db: CommonQueryMethods, id: number) =>
  db.query(sql.typeAlias("void")`UPDATE next_planting_order SET is_open = false WHERE id = ${id}`);

const idRow = z.strictObject({ id: z.int() });

/**
 * Waits for the transactions that change the trees of a closed order, and makes others wait until this one ends.
 * @returns whether the order is not created yet
 */
export const lockNextOrder = async (transaction: DatabaseTransactionConnection, id: number) =>
  (await transaction.maybeOneFirst(sql.type(idRow)`
    SELECT id FROM next_planting_order WHERE id = ${id} FOR UPDATE
  `)) !== null;

/** Creates a locked order of the trees that have joined it and are not refunded. Returns false if there are none. */
export const insertPlantingOrder = async (
  transaction: DatabaseTransactionConnection,
  { id, accountId, mode, buyerName }: NextOrder,
  order: Pick<PlantingOrder, "publicId" | "partner" | "partnerName" | "timeline" | "createdAt">,
) => {
  const inserted = await transaction.maybeOneFirst(sql.type(idRow)`
    WITH deleted AS (
      DELETE FROM next_planting_order WHERE id = ${id}
    )
    INSERT INTO planting_order
      (id, public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT
      ${id}, ${order.publicId}, ${accountId}, ${mode}, ${order.partner}, ${order.partnerName},
      ${buyerName}, ${order.timeline}, sum(count - refunded_count)::bigint, ${timestamp(order.createdAt)}
    FROM registration
    WHERE planting_order_id = ${id}
    HAVING sum(count - refunded_count) > 0
    RETURNING id
  `);
  return inserted !== null;
};

/** Locks the orders of registrations that are not created yet, so that none is before the transaction ends. */
export const lockNextOrdersOf = (
  transaction: DatabaseTransactionConnection,
  registrationIds: readonly string[],
) =>
  transaction.query(sql.prepared("lock_next_orders_of", nothing)`
    SELECT
    FROM next_planting_order
    WHERE id = ANY(ARRAY(
      SELECT planting_order_id FROM registration WHERE registration.id = ANY(${sql.array([...registrationIds], "uuid")})
    ))
    FOR KEY SHARE
  `);
