import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { WEBHOOK_TYPES, webhookFieldsOf } from "../../domain/events/webhookPayloads.ts";
import { safeInteger } from "../columns.ts";
import type { WebhookEndpoint } from "./endpoints.ts";
import { sql } from "../sql.ts";

/**
 * Makes deliveries due of the events since a time that an endpoint wants, and that are neither delivered to it nor pending,
 * oldest first. The schedule of those that had failed begins again. The database selects what webhooks send, because the
 * whole events can be many megabytes.
 * @returns how many such events there are; counting ends at one more than the limit
 */
export const insertMissedDeliveries = (
  db: CommonQueryMethods,
  { id, accountId, mode, types }: WebhookEndpoint,
  since: Date,
  limit: number,
  now: Date,
): Promise<number> => {
  const sent = WEBHOOK_TYPES.flatMap((type) => webhookFieldsOf(type).map((name) => [type, name]));
  const time = sql.fragment`${now.toISOString()}::timestamptz`;
  return db.oneFirst(sql.type(z.strictObject({ found: safeInteger }))`
    WITH missed AS MATERIALIZED (
      SELECT event.transaction_id, event.id, event.type, event.created_at, event.data
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
      LIMIT ${limit + 1}
    ),
    inserted_delivery AS (
      INSERT INTO webhook_delivery (
        endpoint_id, event_id, transaction_id, type, occurred_at, data, created_at, due_at
      )
      SELECT
        ${id},
        missed.id,
        missed.transaction_id,
        missed.type,
        missed.created_at,
        (
          SELECT json_object_agg(field.name, field.value ORDER BY field.place)
          FROM json_each(missed.data) WITH ORDINALITY AS field (name, value, place)
          WHERE (missed.type, field.name) IN (
            SELECT sent.type, sent.name
            FROM ${sql.unnest(sent, ["text", "text"])} AS sent (type, name)
          )
        ),
        ${time},
        ${time}
      FROM missed
      ORDER BY missed.transaction_id, missed.id
      LIMIT ${limit}
      ON CONFLICT (endpoint_id, event_id) DO UPDATE
      SET state = 'pending', due_at = excluded.due_at, earlier_attempts = webhook_delivery.attempts
      WHERE webhook_delivery.state = 'failed'
    )
    SELECT count(*) AS found
    FROM missed
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
