import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import {
  FIRST_PROCESSING_DELAY_MS,
  MAXIMUM_PROCESSING_DELAY_MS,
  PROCESSOR_EVENT_STATES,
} from "./processorEvents.rules.ts";
import type { ProcessorEvent, ProcessorEventState } from "./processorEvents.rules.ts";
import { afterLookup, columnsOf, safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { countDeleted, deletedRow, startingAt } from "../../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../../db/batching/deleteInBatches.ts";

/**
 * Stores an event that a webhook has announced.
 * @returns false if it was stored before
 */
export const insertProcessorEvent = async (
  db: CommonQueryMethods,
  { id, type, objectId, createdAt }: Omit<ProcessorEvent, "isLive">,
  receivedAt: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, object_id, created_at, received_at, next_attempt_at)
    VALUES (
      ${id}, ${type}, ${objectId}, ${timestamp(createdAt)}, ${timestamp(receivedAt)}, ${timestamp(receivedAt)}
    )
    ON CONFLICT (id) DO NOTHING
  `);
  return rowCount > 0;
};

const eventRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  objectId: z.string().nullable(),
  state: z.enum(PROCESSOR_EVENT_STATES),
  attempts: z.int(),
  receivedAt: z.date(),
  settledAt: z.date().nullable(),
  lastError: z.string().nullable(),
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

/** Changes the state of an event that is in one of the states. A settled one needs no further attempt. */
export const changeProcessorEvent = async (
  db: CommonQueryMethods,
  id: string,
  {
    from,
    state,
    error = null,
    dueAt = null,
    now,
  }: {
    readonly from: ProcessorEventState;
    readonly state: ProcessorEventState;
    /** Replaces the last error, unless it is null. */
    readonly error?: string | null;
    /** When it is attempted next, if that changes. */
    readonly dueAt?: Date | null;
    readonly now: Date;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE processor_event
    SET
      state = ${state},
      last_error = coalesce(${error}, last_error),
      next_attempt_at = coalesce(${timestamp(dueAt)}, next_attempt_at),
      settled_at = ${timestamp(state === "pending" ? null : now)}
    WHERE id = ${id} AND ${afterLookup(sql.fragment`state = ${from}`)}
  `);
};

/**
 * Deletes events that were processed or discarded before a time, oldest first.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteProcessedEvents = (
  db: CommonQueryMethods,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM processor_event
      WHERE id = ANY(ARRAY(
        SELECT id
        FROM processor_event
        WHERE state IN ('processed', 'discarded')
          AND settled_at >= ${startingAt(from)}
          AND settled_at < ${timestamp(before)}
        ORDER BY settled_at
        LIMIT ${limit}
      ))
      RETURNING settled_at AS time
    )
    ${countDeleted}
  `);

export const listProcessorEvents = (
  db: CommonQueryMethods,
  state: ProcessorEventState,
  limit: number,
): Promise<readonly StoredProcessorEvent[]> =>
  db.any(sql.type(eventRow)`
    SELECT ${columns}
    FROM processor_event
    WHERE state = ${state}
    ORDER BY received_at DESC, id
    LIMIT ${limit}
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

const failedRow = z.strictObject({ failed: safeInteger });

export const countFailedProcessorEvents = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(failedRow)`
    SELECT count(*) AS failed
    FROM processor_event
    WHERE state = 'failed'
  `);
