import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { FOREST_TYPES } from "../../domain/planting/impactFactors.ts";
import type { PlantingOrder } from "../../domain/planting/order.ts";
import { modeColumn, orderStageColumn, safeInteger, timelineColumn } from "../columns.ts";
import { sql } from "../sql.ts";

/** Where an order's trees stand, as the database keeps it. */
const siteShares = z.array(
  z.strictObject({
    siteId: z.int(),
    region: z.string(),
    forestType: z.enum(FOREST_TYPES),
    weight: z.number(),
  }),
);

const orderRow = z.strictObject({
  id: z.int(),
  publicId: z.string(),
  accountId: z.uuid(),
  mode: modeColumn,
  partner: z.string(),
  partnerName: z.string(),
  buyerName: z.string(),
  timeline: timelineColumn,
  treeCount: safeInteger,
  refundedCount: safeInteger,
  partnerReference: z.string().nullable(),
  stage: orderStageColumn,
  revision: z.int(),
  siteShares,
  createdAt: z.date(),
  plantedAt: z.date().nullable(),
  verifiedAt: z.date().nullable(),
});

const columns = sql.fragment`
  planting_order.id,
  planting_order.public_id AS "publicId",
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

const waitingAccountRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  name: z.string(),
});

/**
 * Who has trees that no order holds yet, in a fixed order. One probe of the index for each of them, however many trees wait.
 * @param after the last one of the page before
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
        WHERE kind = 'tree' AND planting_order_id IS NULL AND refunded_count < count
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
        WHERE kind = 'tree' AND planting_order_id IS NULL AND refunded_count < count
          AND (registration.account_id, registration.mode) > (owner.account_id, owner.mode)
        ORDER BY account_id, mode
        LIMIT 1
      ) AS following
      -- Sorting asks for all rows, so the outer query's LIMIT would no longer end this.
      WHERE owner.place < ${limit}
    )
    SELECT owner.account_id AS "accountId", owner.mode, account.name
    FROM owner
    JOIN account ON account.id = owner.account_id
    ORDER BY owner.account_id, owner.mode
  `);

/** What a new order is made from. */
export type NewPlantingOrder = Pick<
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

const insertedRow = z.strictObject({ id: z.int(), registrations: z.int() });

/**
 * Makes an order of an account's oldest trees that no order holds yet. Registrations that somebody is refunding at this
 * moment are left for the next one.
 * @returns null when there are none
 */
export const insertPlantingOrder = (
  transaction: DatabaseTransactionConnection,
  order: NewPlantingOrder,
  limit: number,
): Promise<z.output<typeof insertedRow> | null> =>
  transaction.maybeOne(sql.type(insertedRow)`
    WITH chosen AS MATERIALIZED (
      SELECT id
      FROM registration
      WHERE account_id = ${order.accountId}
        AND mode = ${order.mode}
        AND kind = 'tree'
        AND planting_order_id IS NULL
        AND refunded_count < count
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
        ${order.createdAt.toISOString()}::timestamptz
      FROM next_order
      RETURNING id
    )
    SELECT inserted.id, (SELECT count(*) FROM ordered)::integer AS registrations
    FROM inserted
  `);

/**
 * Orders whose workflow is to be started: those of which nobody has started one yet, and unfinished ones that nobody has
 * looked at for so long that theirs must be lost.
 * @param silentSince orders that were looked at or started since then are left alone
 */
export const listPlantingOrdersToStart = (
  db: CommonQueryMethods,
  silentSince: Date,
  limit: number,
): Promise<readonly number[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.int() }))`
    (
      SELECT id
      FROM planting_order
      WHERE workflow_started_at IS NULL
      ORDER BY id
      LIMIT ${limit}
    )
    UNION ALL
    (
      SELECT id
      FROM planting_order
      WHERE finished_at IS NULL AND greatest(workflow_started_at, polled_at) < ${silentSince.toISOString()}::timestamptz
        AND workflow_started_at IS NOT NULL
      ORDER BY greatest(workflow_started_at, polled_at)
      LIMIT ${limit}
    )
    LIMIT ${limit}
  `);

/** Keeps when orders' workflows were last started, or found running. */
export const markPlantingOrdersStarted = async (
  db: CommonQueryMethods,
  ids: readonly number[],
  workflowStartedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET workflow_started_at = ${workflowStartedAt.toISOString()}
    WHERE id = ANY(${sql.array(ids, "int4")})
  `);
};

/** Keeps that an order was looked at, and whether that was for the last time. */
export const markPlantingOrderPolled = async (
  db: CommonQueryMethods,
  id: number,
  polledAt: Date,
  isFinished: boolean,
): Promise<void> => {
  const finishedAt = isFinished ? polledAt.toISOString() : null;
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET polled_at = ${polledAt.toISOString()}::timestamptz, finished_at = coalesce(finished_at, ${finishedAt}::timestamptz)
    WHERE id = ${id}
  `);
};

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

/** An order under a lock that lasts until the transaction ends. */
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

/** The order that holds a registration, under a lock that lasts until the transaction ends. */
export const lockPlantingOrderOf = (
  transaction: DatabaseTransactionConnection,
  registrationId: string,
): Promise<PlantingOrder | null> =>
  transaction.maybeOne(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE id = (SELECT planting_order_id FROM registration WHERE registration.id = ${registrationId})
    FOR UPDATE
  `);

/** Keeps what facts have changed of an order; its evidence is another one afterwards. */
export const updatePlantingOrderProgress = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET
      stage = ${order.stage},
      partner_reference = ${order.partnerReference},
      site_shares = ${sql.jsonb(order.siteShares.map((share) => ({ ...share })))},
      planted_at = ${order.plantedAt?.toISOString() ?? null},
      verified_at = ${order.verifiedAt?.toISOString() ?? null},
      revision = revision + 1
    WHERE id = ${order.id}
  `);
};

export const addRefundedToPlantingOrder = async (
  transaction: DatabaseTransactionConnection,
  id: number,
  count: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET refunded_count = refunded_count + ${count}
    WHERE id = ${id}
  `);
};

/** Which orders to list, newest first. */
export type PlantingOrderFilter = {
  readonly accountId?: string;
  readonly stage?: PlantingOrder["stage"];
  /** Only those with facts that contradict what is on record. */
  readonly contradicted?: boolean;
  readonly limit: number;
};

export const listPlantingOrders = (
  db: CommonQueryMethods,
  filter: PlantingOrderFilter,
): Promise<readonly PlantingOrder[]> =>
  db.any(sql.type(orderRow)`
    SELECT ${columns}
    FROM planting_order
    WHERE true
      ${filter.accountId === undefined ? sql.fragment`` : sql.fragment`AND account_id = ${filter.accountId}`}
      ${filter.stage === undefined ? sql.fragment`` : sql.fragment`AND stage = ${filter.stage}`}
      ${
        filter.contradicted === true
          ? sql.fragment`AND EXISTS (
              SELECT FROM planting_fact
              WHERE planting_fact.order_id = planting_order.id AND planting_fact.state = 'contradiction'
            )`
          : sql.fragment``
      }
    ORDER BY id DESC
    LIMIT ${filter.limit}
  `);
