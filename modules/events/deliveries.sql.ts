import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { DELIVERY_STATES, lastAttempt } from "./decideDelivery.rules.ts";
import type { DeliveryState } from "./decideDelivery.rules.ts";
import { WEBHOOK_TYPES, PING } from "./webhooks.rules.ts";
import type { FeedPosition } from "./events.rules.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { allOf, columnsOf, countRow, sql, timestamp } from "../../db/sql.ts";

const deliveryRow = z.strictObject({
  transactionId: z.string().transform(BigInt),
  /** The second part of the event's id. */
  id: z.uuid(),
  // Another release may have recorded it.
  type: z.string(),
  occurredAt: z.date(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.int(),
  lastAttempt: lastAttempt.nullable(),
  createdAt: z.date(),
  dueAt: z.date().nullable(),
});

/** A delivery as its owner sees it. */
export type Delivery = Readonly<z.output<typeof deliveryRow>>;

/**
 * Lists deliveries of an endpoint, newest first.
 * @param filter.state absent for all; `failed` finds also those that are pending after a failed attempt
 */
export const listDeliveries = (
  db: CommonQueryMethods,
  endpointId: string,
  { state, limit }: { readonly state?: DeliveryState | undefined; readonly limit: number },
) =>
  db.any(sql.type(deliveryRow)`
    SELECT ${columnsOf("page", deliveryRow, {
      transactionId: sql.fragment`page.transaction_id::text`,
      id: sql.fragment`page.event_id`,
      type: sql.fragment`event.type`,
      occurredAt: sql.fragment`event.created_at`,
    })}
    FROM (
      SELECT *
      FROM webhook_delivery
      WHERE ${allOf(
        sql.fragment`endpoint_id = ${endpointId}`,
        state === "failed" && sql.fragment`state <> 'delivered' AND attempts > 0`,
        state !== undefined && state !== "failed" && sql.fragment`state = ${state}`,
      )}
      ORDER BY created_at DESC, event_id DESC
      LIMIT ${limit}
    ) AS page
    CROSS JOIN LATERAL (SELECT type, created_at FROM event WHERE id = page.event_id OFFSET 0) AS event
    ORDER BY page.created_at DESC, page.event_id DESC
  `);

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

/** Inserts a ping, which is for one endpoint only. */
export const insertPing = (
  db: CommonQueryMethods,
  { id: endpointId, accountId, mode }: Pick<WebhookEndpoint, "id"> & AccountMode,
  id: string,
  now: Date,
) => {
  const time = timestamp(now);
  const data = JSON.stringify({ endpoint_id: endpointId });
  return db.one(sql.type(positionRow)`
    WITH inserted_event AS (
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      VALUES (${id}, ${accountId}, ${mode}, ${PING}, ${time}, ${data}::json)
    )
    INSERT INTO webhook_delivery (event_id, endpoint_id, created_at, due_at)
    VALUES (${id}, ${endpointId}, ${time}, ${time})
    RETURNING transaction_id::text AS "transactionId", event_id AS id
  `);
};

/** The events that an endpoint wants and that are neither delivered to it nor due. */
const missedSince = ({ id, types }: WebhookEndpoint, since: Date, now: Date) =>
  sql.fragment`
    event.created_at >= ${timestamp(since)}
    AND event.type = ANY(${sql.array([...(types ?? WEBHOOK_TYPES)], "text")})
    AND NOT EXISTS (
      SELECT
      FROM webhook_delivery
      WHERE webhook_delivery.event_id = event.id
        AND webhook_delivery.endpoint_id = ${id}
        AND (webhook_delivery.state = 'delivered' OR webhook_delivery.due_at <= ${timestamp(now)})
      OFFSET 0
    )
  `;

/**
 * Makes deliveries due, oldest first: of one event of the endpoint's owner, even if it was delivered, or of the events since
 * a time that the endpoint has missed. Their schedule begins again.
 * @returns how many such events there are, where counting ends at one more than the limit
 */
export const recoverDeliveries = (
  transaction: CommonQueryMethods,
  endpoint: WebhookEndpoint,
  chosen: {
    readonly event: FeedPosition | undefined;
    readonly since: Date;
    readonly limit: number;
    readonly now: Date;
  },
) => {
  const { id, accountId, mode } = endpoint;
  const { event, since, limit, now } = chosen;
  const time = timestamp(now);
  const isChosen = event
    ? sql.fragment`event.id = ${event.id} AND event.transaction_id = ${String(event.transactionId)}::xid8`
    : missedSince(endpoint, since, now);
  return transaction.oneFirst(sql.type(countRow)`
    WITH recovered AS MATERIALIZED (
      SELECT event.id, event.transaction_id, event.created_at
      FROM event
      WHERE event.account_id = ${accountId} AND event.mode = ${mode} AND ${isChosen}
      ORDER BY event.created_at, event.id
      LIMIT ${limit + 1}
    ),
    inserted AS (
      INSERT INTO webhook_delivery (event_id, endpoint_id, transaction_id, created_at, due_at)
      SELECT id, ${id}, transaction_id, ${time}, ${time}
      FROM recovered
      ORDER BY created_at, id
      LIMIT ${limit}
      ON CONFLICT (event_id, endpoint_id) DO UPDATE
      SET state = 'pending', due_at = excluded.due_at, attempts = 0
      WHERE ${event !== undefined} OR webhook_delivery.state <> 'delivered'
    )
    SELECT count(*) AS count FROM recovered
  `);
};
