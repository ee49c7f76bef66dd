import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import {
  FIRST_PROCESSING_DELAY_MS,
  MAXIMUM_PROCESSING_DELAY_MS,
  SUBSCRIPTION_READ,
} from "./processorEvents.rules.ts";
import type { ProcessorEvent } from "./processorEvents.rules.ts";
import { columnsOf, sql, timestamp } from "../../../db/sql.ts";

export const insertProcessorEvent = async (
  db: CommonQueryMethods,
  { id, type, objectId }: ProcessorEvent,
  receivedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, object_id, received_at, next_attempt_at)
    VALUES (${id}, ${type}, ${objectId}, ${timestamp(receivedAt)}, ${timestamp(receivedAt)})
    ON CONFLICT (id) DO NOTHING
  `);
};

/**
 * Has the subscriptions of all organizations read again, like after a webhook about each of them. One that already waits to
 * be read keeps the time since when it does, after which it is given up.
 * @param spreadMs the time over which they are spread, so that webhooks do not wait behind thousands of them
 */
export const requestSubscriptionReads = async (
  db: CommonQueryMethods,
  now: Date,
  spreadMs = 0,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, object_id, received_at, next_attempt_at)
    SELECT
      'read:' || subscription.id, ${SUBSCRIPTION_READ}, subscription.id, ${timestamp(now)},
      ${timestamp(now)} + interval '1 millisecond' * random() * ${spreadMs}
    FROM (SELECT DISTINCT stripe_subscription_id AS id FROM account) AS subscription
    WHERE subscription.id IS NOT NULL AND EXISTS (SELECT FROM deployment WHERE processor = 'stripe')
    ON CONFLICT (id) DO UPDATE SET next_attempt_at = excluded.next_attempt_at, attempts = 0
  `);
};

const eventRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  objectId: z.string().nullable(),
  attempts: z.int(),
  receivedAt: z.date(),
});

export type StoredProcessorEvent = Readonly<z.output<typeof eventRow>>;

const columns = columnsOf("processor_event", eventRow);

/** Records an attempt to process the event that is due for longest, before it is made. */
export const beginProcessing = (db: CommonQueryMethods, now: Date) =>
  db.maybeOne(sql.type(eventRow)`
    UPDATE processor_event
    SET
      attempts = attempts + 1,
      next_attempt_at = ${timestamp(now)} + interval '1 millisecond' * least(
        ${FIRST_PROCESSING_DELAY_MS} * 2::double precision ^ least(attempts, 100),
        ${MAXIMUM_PROCESSING_DELAY_MS}
      )
    WHERE id = (
      SELECT id
      FROM processor_event
      WHERE next_attempt_at <= ${timestamp(now)}
      ORDER BY next_attempt_at
      LIMIT 1
      FOR UPDATE SKIP LOCKED
    )
    RETURNING ${columns}
  `);

/** Deletes an event that is processed or given up. Returns whether it waited. */
export const deleteProcessorEvent = async (db: CommonQueryMethods, id: string) => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM processor_event WHERE id = ${id}
  `);
  return rowCount > 0;
};
