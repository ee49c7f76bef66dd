import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../../records/owner.rules.ts";
import { columnsOf, safeInteger, sql, timestamp } from "../../../db/sql.ts";
import type { Span } from "../usage.rules.ts";

const foundStream = z.object({
  kind: z.enum(KINDS),
  customerId: z.string(),
  accountIds: z.tuple([z.uuid()], z.uuid()),
  accountName: z.string(),
  delivered: z.int(),
  processorQuantity: z.number().nullable(),
  /** Why the processor's sum could not be read. */
  error: z.string().nullable(),
});

/** A stream that differed or could not be read. */
export type FoundStream = Readonly<z.output<typeof foundStream>>;

const reconciliationRow = z.strictObject({
  id: z.uuid(),
  isComplete: z.boolean(),
  startSecond: safeInteger,
  endSecond: safeInteger,
  startedAt: z.date(),
  endedAt: z.date().nullable(),
  asked: safeInteger,
  streams: z.int().nullable(),
  found: z.array(foundStream),
  error: z.string().nullable(),
});

/** A stored comparison of the processor's sums with ours. It failed if it has an error. */
export type StoredReconciliation = Readonly<z.output<typeof reconciliationRow>>;

const columns = columnsOf("reconciliation", reconciliationRow);

/** How many events the processor is asked about before they are sent. */
const askedEvents = sql.fragment`
  (SELECT count(*) FROM meter_event WHERE state = 'pending' AND asking_since IS NOT NULL)
`;

/** How many facts that may have been sent in a lost history are in no event yet. */
const doubtedFacts = sql.fragment`
  (
    SELECT count(*)
    FROM usage_fact
    WHERE meter_event_id IS NULL AND id <= (SELECT doubted_fact_id FROM deployment)
  )
`;

const askedRow = z.strictObject({ events: safeInteger, unsealedFacts: safeInteger });

/** Counts the usage about which the processor is asked before it is sent. */
export const countAskedUsage = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof askedRow>>> =>
  db.one(sql.type(askedRow)`
    SELECT ${askedEvents} AS events, ${doubtedFacts} AS "unsealedFacts"
  `);

/** Stores that a reconciliation has started, unless it is stored already, and returns it. */
export const insertReconciliation = async (
  db: CommonQueryMethods,
  {
    id,
    isComplete,
    span,
    startedAt,
  }: {
    readonly id: string;
    readonly isComplete: boolean;
    readonly span: Span;
    readonly startedAt: Date;
  },
): Promise<StoredReconciliation> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (id, is_complete, start_second, end_second, started_at, asked)
    VALUES (
      ${id}, ${isComplete}, ${span.start}, ${span.end}, ${timestamp(startedAt)}, ${askedEvents} + ${doubtedFacts}
    )
    ON CONFLICT (id) DO NOTHING
  `);
  return db.one(sql.type(reconciliationRow)`
    SELECT ${columns} FROM reconciliation WHERE id = ${id}
  `);
};

/** Stores the results so far. The number of streams is that of the first poll, which compares all. */
export const updateReconciliation = async (
  db: CommonQueryMethods,
  id: string,
  result: {
    readonly streams: number;
    /** The streams that differ or could not be read. */
    readonly found: readonly FoundStream[];
    /** Null if another poll follows. */
    readonly endedAt: Date | null;
    readonly error: string | null;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE reconciliation
    SET
      streams = coalesce(streams, ${result.streams}),
      found = ${JSON.stringify(result.found)}::jsonb,
      ended_at = ${timestamp(result.endedAt)},
      error = ${result.error}
    WHERE id = ${id}
  `);
};

/** Stores that a reconciliation has failed. Its results so far stay. */
export const failReconciliation = async (
  db: CommonQueryMethods,
  id: string,
  error: string,
  endedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE reconciliation
    SET error = ${error}, ended_at = ${timestamp(endedAt)}
    WHERE id = ${id}
  `);
};

/**
 * Deletes the oldest reconciliations that were started before a time.
 * @returns how many were deleted
 */
export const deleteOldReconciliations = async (
  db: CommonQueryMethods,
  before: Date,
  limit: number,
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM reconciliation
    WHERE id = ANY(ARRAY(
      SELECT id FROM reconciliation WHERE started_at < ${timestamp(before)} LIMIT ${limit}
    ))
  `);
  return rowCount;
};

/** The latest complete reconciliation that meets a condition, as the tail of a SELECT. */
const lastComplete = (condition: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  FROM reconciliation
  WHERE is_complete AND ${condition}
  ORDER BY started_at DESC
  LIMIT 1
`;

/** Returns the complete reconciliation that started last; null if there was none. */
export const findLastReconciliation = (
  db: CommonQueryMethods,
): Promise<StoredReconciliation | null> =>
  db.maybeOne(sql.type(reconciliationRow)`SELECT ${columns} ${lastComplete(sql.fragment`true`)}`);

const statusRow = z.strictObject({
  lastSuccessAt: z.date().nullable(),
  installedAt: z.date(),
  unreadable: safeInteger,
  hasFailed: z.boolean(),
});

/** What the metrics and `doctor` report of complete reconciliations. */
export type ReconciliationStatus = Readonly<z.output<typeof statusRow>>;

/** Unreadable streams and `hasFailed` are of the last reconciliation that has results. One that failed can hide differences. */
export const readReconciliationStatus = (db: CommonQueryMethods): Promise<ReconciliationStatus> =>
  db.one(sql.type(statusRow)`
    SELECT
      (SELECT ended_at ${lastComplete(sql.fragment`ended_at IS NOT NULL AND error IS NULL`)}) AS "lastSuccessAt",
      (SELECT min(applied_at) FROM schema_migration) AS "installedAt",
      (
        SELECT count(*)
        FROM jsonb_array_elements(last.found) AS stream
        WHERE stream ->> 'error' IS NOT NULL
      ) AS unreadable,
      last.error IS NOT NULL AS "hasFailed"
    FROM (VALUES (true)) AS always (present)
    LEFT JOIN LATERAL (
      SELECT found, error ${lastComplete(sql.fragment`ended_at IS NOT NULL AND streams IS NOT NULL`)}
    ) AS last ON true
  `);
