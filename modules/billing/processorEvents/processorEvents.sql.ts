import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import {
  FIRST_PROCESSING_DELAY_MS,
  MAXIMUM_PROCESSING_DELAY_MS,
  PROCESSOR_EVENT_STATES,
  SUBSCRIPTION_READ,
} from "./processorEvents.rules.ts";
import type { ProcessorEvent } from "./processorEvents.rules.ts";
import { afterLookup, columnsOf, sql, timestamp } from "../../../db/sql.ts";
import { countDeleted, deletedRow, startOf } from "../../../db/batching/deleteInBatches.ts";
import type { Deleted, DeletedSpan } from "../../../db/batching/deleteInBatches.ts";

/**
 * Stores an event that a webhook has announced.
 * @returns false if it was stored before
 */
export const insertProcessorEvent = async (
  db: CommonQueryMethods,
  { id, type, objectId }: ProcessorEvent,
  receivedAt: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, object_id, received_at, next_attempt_at)
    VALUES (
      ${id}, ${type}, ${objectId}, ${timestamp(receivedAt)}, ${timestamp(receivedAt)}
    )
    ON CONFLICT (id) DO NOTHING
  `);
  return rowCount > 0;
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
    ON CONFLICT (id) DO UPDATE SET
      received_at = CASE processor_event.state
        WHEN 'pending' THEN processor_event.received_at
        ELSE excluded.received_at
      END,
      next_attempt_at = excluded.next_attempt_at,
      attempts = 0,
      state = 'pending',
      settled_at = NULL
  `);
};

const eventRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  objectId: z.string().nullable(),
  state: z.enum(PROCESSOR_EVENT_STATES),
  attempts: z.int(),
  receivedAt: z.date(),
});

export type StoredProcessorEvent = Readonly<z.output<typeof eventRow>>;

const columns = columnsOf("processor_event", eventRow);

/**
 * Records an attempt to process the pending event that is due for longest, before it is made. An event that is due later than
 * any delay lasts was delayed before the clock was set back.
 * @returns null if none is due
 */
export const beginProcessing = (
  db: CommonQueryMethods,
  now: Date,
): Promise<StoredProcessorEvent | null> =>
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
      WHERE state = 'pending'
        AND (
          next_attempt_at <= ${timestamp(now)}
          OR next_attempt_at > ${timestamp(new Date(now.getTime() + 2 * MAXIMUM_PROCESSING_DELAY_MS))}
        )
      ORDER BY next_attempt_at
      LIMIT 1
      FOR UPDATE SKIP LOCKED
    )
    RETURNING ${columns}
  `);

/** Records the end of an attempt to process an event, unless it is settled. A settled one is not attempted again. */
export const recordProcessing = async (
  db: CommonQueryMethods,
  id: string,
  {
    isSettled,
    error = null,
    now,
  }: { readonly isSettled: boolean; readonly error?: string | null; readonly now: Date },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE processor_event
    SET
      state = ${isSettled ? "processed" : "pending"},
      last_error = ${error},
      settled_at = ${timestamp(isSettled ? now : null)}
    WHERE id = ${id} AND ${afterLookup(sql.fragment`state = 'pending'`)}
  `);
};

/** Deletes events that were settled before a time, oldest first. */
export const deleteProcessedEvents = (
  db: CommonQueryMethods,
  span: DeletedSpan,
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM processor_event
      WHERE id = ANY(ARRAY(
        SELECT id
        FROM processor_event
        WHERE state = 'processed'
          AND settled_at >= ${startOf(span)}
          AND settled_at < ${timestamp(span.before)}
        ORDER BY settled_at
        LIMIT ${limit}
      ))
      RETURNING settled_at AS time
    )
    ${countDeleted}
  `);

/** Locks an event until the transaction ends. Returns null if there is none. */
export const lockProcessorEvent = (
  transaction: DatabaseTransactionConnection,
  id: string,
): Promise<StoredProcessorEvent | null> =>
  transaction.maybeOne(sql.type(eventRow)`
    SELECT ${columns}
    FROM processor_event
    WHERE id = ${id}
    FOR UPDATE
  `);
