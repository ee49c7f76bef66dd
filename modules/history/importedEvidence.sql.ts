import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedEvidence, ImportedTreeOrder } from "./importedEvidence.rules.ts";
import { IMPORTED_PARTNER } from "../planting/order.rules.ts";
import type { PlantingOrder } from "../planting/orders.sql.ts";
import { lockNextOrdersOf } from "../planting/nextOrders.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { idRow, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { importedRecord, importScopeOf } from "../records/ownedRecords.sql.ts";

const importedTreeRow = z.strictObject({
  id: z.uuid(),
  treeId: z.string(),
  count: safeInteger,
  refundedCount: safeInteger,
  orderId: z.int().nullable(),
  orderPublicId: z.string().nullable(),
  orderKey: z.guid().nullable(),
  importedFrom: z.string().nullable(),
  importedOrderId: safeInteger.nullable(),
  facts: z.array(z.strictObject({ digest: z.string(), isWithdrawn: z.boolean() })),
});

/** An imported tree registration, and what is recorded about its planting. */
export type ImportedTree = Readonly<z.output<typeof importedTreeRow>>;

const isImportedTree = (owner: AccountMode, treeIds: readonly string[]) =>
  sql.fragment`registration.id = ANY(ARRAY(
    SELECT ${importedRecord("registration", importScopeOf("registration", { ...owner, kind: PLANTED_KIND }), sql.fragment`given`)}
    FROM unnest(${sql.array([...treeIds], "text")}) AS given
  ))`;

export const listImportedTrees = (
  db: CommonQueryMethods,
  owner: AccountMode,
  treeIds: readonly string[],
) =>
  db.any(sql.type(importedTreeRow)`
    SELECT
      registration.id,
      registration.imported_id AS "treeId",
      registration.count,
      registration.refunded_count AS "refundedCount",
      planting_order.id AS "orderId",
      planting_order.public_id AS "orderPublicId",
      planting_order.imported_key AS "orderKey",
      planting_order.imported_from AS "importedFrom",
      planting_order.imported_order_id AS "importedOrderId",
      coalesce(
        (
          SELECT jsonb_agg(
            jsonb_build_object('digest', encode(digest, 'hex'), 'isWithdrawn', state = 'withdrawn')
          )
          FROM planting_fact
          WHERE planting_fact.order_id = planting_order.id
        ),
        '[]'
      ) AS facts
    FROM registration
    LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
    WHERE ${isImportedTree(owner, treeIds)}
  `);

/**
 * Locks these registrations until the transaction ends, and lists them. Separate statements wait for the locks, because
 * a statement that has waited still sees the orders as they were when it began.
 */
export const lockImportedTrees = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  treeIds: readonly string[],
) => {
  const ids = await transaction.anyFirst(sql.type(idRow)`
    SELECT registration.id
    FROM registration
    WHERE ${isImportedTree(owner, treeIds)}
    ORDER BY registration.id
    FOR UPDATE
  `);
  await lockNextOrdersOf(transaction, ids);
  return listImportedTrees(transaction, owner, treeIds);
};

type NewImportedOrder = AccountMode &
  Pick<ImportedEvidence, "source" | "partnerName" | "shape"> &
  Pick<ImportedTreeOrder, "orderId" | "publicId" | "buyerName"> & {
    readonly key: string;
    /** The id of the order here. */
    readonly ownPublicId: string;
    readonly treeCount: number;
    readonly refundedCount: number;
    readonly createdAt: Date;
    readonly importedAt: Date;
  };

const orderRow = z.strictObject({ id: z.int(), isNew: z.boolean() });

/** Inserts an order that another system placed, unless it is there. It is finished: no workflow polls it. */
export const getOrInsertImportedOrder = (
  transaction: DatabaseTransactionConnection,
  order: NewImportedOrder,
) =>
  transaction.one(sql.type(orderRow)`
    INSERT INTO planting_order (
      public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, refunded_count, created_at,
      finished_at, imported_from, imported_order_id, imported_public_id, imported_key
    )
    VALUES (
      ${order.ownPublicId}, ${order.accountId}, ${order.mode}, ${IMPORTED_PARTNER}, ${order.partnerName},
      ${order.buyerName}, ${order.shape}, ${order.treeCount}, ${order.refundedCount},
      ${timestamp(order.createdAt)}, ${timestamp(order.importedAt)},
      ${order.source}, ${order.orderId}, ${order.publicId}, ${order.key}
    )
    ON CONFLICT (account_id, mode, imported_key) WHERE imported_key IS NOT NULL
      DO UPDATE SET imported_key = excluded.imported_key
    RETURNING id, xmax = 0 AS "isNew"
  `);

/** Stores how many trees an order has after some joined or left it. */
export const updateOrderSize = (
  transaction: DatabaseTransactionConnection,
  { id, treeCount, refundedCount }: Pick<PlantingOrder, "id" | "treeCount" | "refundedCount">,
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET tree_count = ${treeCount}, refunded_count = ${refundedCount}
    WHERE id = ${id}
  `);

const ORDERED_TREE = {
  id: "uuid",
  treeOrderId: "int8",
  treeOrderPublicId: "text",
  treeAmount: "int8",
} as const;

/** Puts registrations into an order, with the ids and the amount that another system has shown, if it has. */
export const assignToOrder = (
  transaction: DatabaseTransactionConnection,
  orderId: number,
  trees: readonly (Pick<ImportedTreeOrder, "treeOrderId" | "treeOrderPublicId" | "treeAmount"> & {
    readonly id: string;
  })[],
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE registration
    SET
      planting_order_id = ${orderId},
      tree_order_id = coalesce(given.tree_order_id, nextval('tree_order_id')),
      tree_order_public_id = given.tree_order_public_id,
      ordered_count = coalesce(given.tree_amount, registration.count)
    FROM (${jsonRows(ORDERED_TREE, trees)}) AS given
    WHERE registration.id = given.id
  `);
