import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { MAXIMUM_PROCESSING_DELAY_MS, PROCESSOR_EVENT_STATES } from "./processorEvents.rules.ts";
import type {
  ProcessorEvent,
  ProcessorEventState,
  RejectionReport,
} from "./processorEvents.rules.ts";
import { safeInteger, afterLookup, sql, timestamp } from "../../../db/sql.ts";
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

const dueRow = z.strictObject({ id: z.string(), type: z.string(), attempts: z.int() });

/**
 * Lists pending events whose next attempt is due, the longest due first. An attempt that is due later than any delay lasts
 * was recorded before the clock was set back.
 */
export const listDueProcessorEvents = (
  db: CommonQueryMethods,
  now: Date,
  limit: number,
): Promise<readonly Readonly<z.output<typeof dueRow>>[]> =>
  db.any(sql.type(dueRow)`
    SELECT id, type, attempts
    FROM processor_event
    WHERE state = 'pending'
      AND (
        next_attempt_at <= ${timestamp(now)}
        OR next_attempt_at > ${timestamp(new Date(now.getTime() + 2 * MAXIMUM_PROCESSING_DELAY_MS))}
      )
    ORDER BY next_attempt_at
    LIMIT ${limit}
  `);

const attemptRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  objectId: z.string().nullable(),
  receivedAt: z.date(),
});

const isStillPending = afterLookup(sql.fragment`state = 'pending'`);

export type ProcessorEventAttempt = Readonly<z.output<typeof attemptRow>>;

/**
 * Records an attempt before it is made.
 * @returns null if another process has begun one
 */
export const beginProcessing = (
  db: CommonQueryMethods,
  { id, attempts }: { readonly id: string; readonly attempts: number },
  nextAttemptAt: Date,
): Promise<ProcessorEventAttempt | null> =>
  db.maybeOne(sql.type(attemptRow)`
    UPDATE processor_event
    SET attempts = attempts + 1, next_attempt_at = ${timestamp(nextAttemptAt)}
    WHERE id = ${id} AND attempts = ${attempts} AND ${isStillPending}
    RETURNING id, type, object_id AS "objectId", received_at AS "receivedAt"
  `);

/** Records why an attempt failed; the next one follows. */
export const recordProcessingError = async (
  db: CommonQueryMethods,
  id: string,
  error: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE processor_event
    SET last_error = ${error}
    WHERE id = ${id} AND ${isStillPending}
  `);
};

/** Records that an event needs no further attempt. */
export const settleProcessorEvent = async (
  db: CommonQueryMethods,
  id: string,
  settlement: {
    readonly state: "processed" | "failed";
    /** Replaces the last error, unless it is null. */
    readonly error: string | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE processor_event
    SET
      state = ${settlement.state},
      last_error = coalesce(${settlement.error}, last_error),
      settled_at = ${timestamp(settlement.settledAt)}
    WHERE id = ${id} AND ${isStillPending}
  `);
};

/**
 * Deletes events that were processed or discarded before a time, oldest first, with the rejections that they reported. An
 * event that reported unnamed rejections stays: comparisons of the usage that was sent meanwhile name it.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteProcessedEvents = (
  db: CommonQueryMethods,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH old AS MATERIALIZED (
      SELECT id
      FROM processor_event
      WHERE state IN ('processed', 'discarded')
        AND settled_at >= ${startingAt(from)}
        AND settled_at < ${timestamp(before)}
        AND NOT EXISTS (
          SELECT FROM usage_rejection WHERE processor_event_id = processor_event.id AND errors > named
        )
      ORDER BY settled_at
      LIMIT ${limit}
    ),
    rejection AS (
      DELETE FROM usage_rejection
      WHERE processor_event_id IN (SELECT id FROM old)
    ),
    deleted AS (
      DELETE FROM processor_event
      WHERE id IN (SELECT id FROM old)
      RETURNING settled_at AS time
    )
    ${countDeleted}
  `);

const listedRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  objectId: z.string().nullable(),
  state: z.enum(PROCESSOR_EVENT_STATES),
  attempts: z.int(),
  receivedAt: z.date(),
  settledAt: z.date().nullable(),
  lastError: z.string().nullable(),
});

const listedColumns = sql.fragment`
  id,
  type,
  object_id AS "objectId",
  state,
  attempts,
  received_at AS "receivedAt",
  settled_at AS "settledAt",
  last_error AS "lastError"
`;

export type ListedProcessorEvent = Readonly<z.output<typeof listedRow>>;

export const listProcessorEvents = (
  db: CommonQueryMethods,
  state: ProcessorEventState,
  limit: number,
): Promise<readonly ListedProcessorEvent[]> =>
  db.any(sql.type(listedRow)`
    SELECT ${listedColumns}
    FROM processor_event
    WHERE state = ${state}
    ORDER BY received_at DESC, id
    LIMIT ${limit}
  `);

/** Locks an event until the transaction ends. Returns null if there is none. */
export const lockProcessorEvent = (
  transaction: DatabaseTransactionConnection,
  id: string,
): Promise<ListedProcessorEvent | null> =>
  transaction.maybeOne(sql.type(listedRow)`
    SELECT ${listedColumns}
    FROM processor_event
    WHERE id = ${id}
    FOR UPDATE
  `);

/** Makes an event due again, or closes it for good. The last error stays. */
export const resolveFailedEvent = async (
  transaction: DatabaseTransactionConnection,
  id: string,
  state: "pending" | "discarded",
  now: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE processor_event
    SET
      state = ${state},
      next_attempt_at = ${timestamp(now)},
      settled_at = ${timestamp(state === "pending" ? null : now)}
    WHERE id = ${id}
  `);
};

const failedRow = z.strictObject({ failed: safeInteger });

export const countFailedProcessorEvents = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(failedRow)`
    SELECT count(*) AS failed
    FROM processor_event
    WHERE state = 'failed'
  `);

/** Stores what a report says about one error code. A repeated call changes only which events are left. */
export const saveUsageRejection = async (
  db: CommonQueryMethods,
  processorEventId: string,
  { windowStart, windowEnd }: RejectionReport,
  rejection: {
    readonly code: string;
    readonly errors: number;
    readonly named: number;
    /** The named meter events to which the report could not be applied yet. */
    readonly leftEventIds: readonly bigint[];
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_rejection
      (processor_event_id, code, errors, named, left_event_ids, window_start, window_end)
    VALUES (
      ${processorEventId}, ${rejection.code}, ${rejection.errors}, ${rejection.named},
      ${sql.array([...rejection.leftEventIds], "int8")}, ${timestamp(windowStart)}, ${timestamp(windowEnd)}
    )
    ON CONFLICT (processor_event_id, code) DO UPDATE
    SET left_event_ids = excluded.left_event_ids
  `);
};

const leftRow = z.strictObject({ ids: z.array(z.string()) });

/** Returns the meter events to which an earlier attempt could not apply a report; null if it was not applied before. */
export const findLeftEventIds = async (
  db: CommonQueryMethods,
  processorEventId: string,
  code: string,
): Promise<ReadonlySet<bigint> | null> => {
  const ids = await db.maybeOneFirst(sql.type(leftRow)`
    SELECT left_event_ids::text[] AS ids
    FROM usage_rejection
    WHERE processor_event_id = ${processorEventId} AND code = ${code}
  `);
  return ids && new Set(ids.map(BigInt));
};

const unnamedRow = z.strictObject({
  code: z.string(),
  unnamed: safeInteger,
  windowStart: z.date(),
  windowEnd: z.date(),
});

/** Refused events that no sample named: how many, and when the processor received them. */
export type UnnamedRejections = Readonly<z.output<typeof unnamedRow>>;

/** Lists rejections of which the processor did not name every event, for usage received after a time, the latest first. */
export const listUnnamedRejections = (
  db: CommonQueryMethods,
  after: Date,
  limit: number,
): Promise<readonly UnnamedRejections[]> =>
  db.any(sql.type(unnamedRow)`
    SELECT
      code,
      errors - named AS unnamed,
      window_start AS "windowStart",
      window_end AS "windowEnd"
    FROM usage_rejection
    WHERE errors > named AND window_end > ${timestamp(after)}
    ORDER BY window_end DESC
    LIMIT ${limit}
  `);
