import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { WEBHOOK_TYPES } from "../../domain/events/webhookPayloads.ts";
import type { WebhookEndpoint } from "./endpoints.ts";
import { sql } from "../sql.ts";

const missedRow = z.strictObject({
  transactionId: z.string(),
  id: z.uuid(),
  type: z.enum(WEBHOOK_TYPES),
  createdAt: z.date(),
  data: z.record(z.string(), z.unknown()),
});

/** An event that an endpoint wants, and that is neither delivered nor on its way. */
export type MissedEvent = Readonly<z.output<typeof missedRow>>;

/** Lists events since a time that an endpoint wants, and that are neither delivered to it nor pending, oldest first. */
export const listMissedEvents = (
  db: CommonQueryMethods,
  { id, accountId, mode, types }: WebhookEndpoint,
  since: Date,
  limit: number,
): Promise<readonly MissedEvent[]> =>
  db.any(sql.type(missedRow)`
    SELECT
      event.transaction_id::text AS "transactionId",
      event.id,
      event.type,
      event.created_at AS "createdAt",
      event.data
    FROM event
    WHERE event.account_id = ${accountId}
      AND event.mode = ${mode}
      AND event.type = ANY(${sql.array(types ?? WEBHOOK_TYPES, "text")})
      AND event.created_at >= ${since.toISOString()}::timestamptz
      AND NOT EXISTS (
        SELECT
        FROM webhook_delivery
        WHERE webhook_delivery.endpoint_id = ${id}
          AND webhook_delivery.event_id = event.id
          AND webhook_delivery.state <> 'failed'
      )
    ORDER BY event.transaction_id, event.id
    LIMIT ${limit}
  `);

/** Makes deliveries of missed events due. The schedule of those that had failed begins again. */
export const insertRecoveredDeliveries = async (
  db: CommonQueryMethods,
  endpointId: string,
  events: readonly (MissedEvent & { readonly webhookData: object })[],
  now: Date,
): Promise<void> => {
  const input = JSON.stringify(
    events.map(({ id, transactionId, type, createdAt, webhookData }) => [
      id,
      transactionId,
      type,
      createdAt,
      webhookData,
    ]),
  );
  const time = sql.fragment`${now.toISOString()}::timestamptz`;
  await db.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (
      endpoint_id, event_id, transaction_id, type, occurred_at, data, created_at, due_at
    )
    SELECT
      ${endpointId},
      (value ->> 0)::uuid,
      (value ->> 1)::xid8,
      value ->> 2,
      (value ->> 3)::timestamptz,
      value -> 4,
      ${time},
      ${time}
    FROM json_array_elements(${input}::json) AS value
    ON CONFLICT (endpoint_id, event_id) DO UPDATE
    SET state = 'pending', due_at = excluded.due_at, earlier_attempts = webhook_delivery.attempts
    WHERE webhook_delivery.state = 'failed'
  `);
};

/** Makes a delivery due, and begins its schedule again, unless a worker is making an attempt. */
export const makeDeliveryDue = async (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
  now: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET state = 'pending', due_at = ${now.toISOString()}, earlier_attempts = attempts, leased_until = NULL
    WHERE endpoint_id = ${endpointId}
      AND event_id = ${id}
      AND (leased_until IS NULL OR leased_until <= ${now.toISOString()}::timestamptz)
  `);
};
