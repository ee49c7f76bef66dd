import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { reportedStreamColumns } from "./reportedStreams.sql.ts";
import type { ReportedStream } from "./reportedStreams.sql.ts";
import type { Span } from "../usage.rules.ts";

const reconciliationRow = z.strictObject({
  id: z.uuid(),
  isComplete: z.boolean(),
  startSecond: safeInteger,
  endSecond: safeInteger,
  startedAt: z.date(),
  endedAt: z.date().nullable(),
  streams: z.int().nullable(),
  drifting: z.int().nullable(),
  unreadable: z.int().nullable(),
  driftUnits: z.bigint().transform(Number).nullable(),
  error: z.string().nullable(),
});

/** A stored comparison of the processor's sums with ours. It failed if it has an error. */
export type StoredReconciliation = Readonly<z.output<typeof reconciliationRow>>;

const reconciliationColumns = sql.fragment`
  id,
  is_complete AS "isComplete",
  start_second AS "startSecond",
  end_second AS "endSecond",
  started_at AS "startedAt",
  ended_at AS "endedAt",
  streams,
  drifting,
  unreadable,
  drift_units AS "driftUnits",
  error
`;

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
    INSERT INTO reconciliation (id, is_complete, start_second, end_second, started_at)
    VALUES (${id}, ${isComplete}, ${span.start}, ${span.end}, ${timestamp(startedAt)})
    ON CONFLICT (id) DO NOTHING
  `);
  return db.one(sql.type(reconciliationRow)`
    SELECT ${reconciliationColumns}
    FROM reconciliation
    WHERE id = ${id}
  `);
};

/** Stores the results so far. The number of streams is that of the first poll, which compares all. */
export const updateReconciliation = async (
  db: CommonQueryMethods,
  id: string,
  result: {
    readonly streams: number;
    readonly drifting: number;
    readonly unreadable: number;
    readonly driftUnits: number;
    /** Null if another poll follows. */
    readonly endedAt: Date | null;
    readonly error: string | null;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE reconciliation
    SET
      streams = coalesce(streams, ${result.streams}),
      drifting = ${result.drifting},
      unreadable = ${result.unreadable},
      drift_units = ${result.driftUnits},
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

const storedStreamRow = z.strictObject({
  ...reportedStreamColumns,
  id: z.bigint(),
  delivered: safeInteger,
  pending: safeInteger,
  failed: safeInteger,
  processorQuantity: safeInteger.nullable(),
  acknowledged: safeInteger,
  error: z.string().nullable(),
  errorIsTemporary: z.boolean(),
});

export type StoredStream = Readonly<z.output<typeof storedStreamRow>>;

/** Of a stream: its first ones. Enough to see what is wrong. Each difference costs calls to the processor. */
export const MAXIMUM_DIFFERENCES = 20;

const storedDifferenceRow = z.strictObject({
  id: safeInteger,
  minute: safeInteger,
  ours: safeInteger,
  processor: safeInteger,
  mayLag: z.boolean(),
});

export type StoredDifference = Readonly<z.output<typeof storedDifferenceRow>>;

/** The most streams that a statement inserts. If the processor is down, every stream is stored, with its error. */
const STREAMS_PER_INSERT = 1000;

/** Replaces the streams that an earlier poll stored for the reconciliation. */
export const replaceReconciliationStreams = async (
  transaction: DatabaseTransactionConnection,
  reconciliationId: string,
  streams: readonly (Omit<StoredStream, "id"> & {
    readonly differences: readonly Omit<StoredDifference, "id">[];
  })[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM reconciliation_difference
    USING reconciliation_stream
    WHERE reconciliation_stream.id = reconciliation_stream_id AND reconciliation_id = ${reconciliationId}
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM reconciliation_stream
    WHERE reconciliation_id = ${reconciliationId}
  `);
  for (let start = 0; start < streams.length; start += STREAMS_PER_INSERT) {
    // A comparison names the meter events of its differences, which are not stored and may be many.
    const part = JSON.stringify(
      streams.slice(start, start + STREAMS_PER_INSERT),
      (key, value: unknown) => (key === "events" ? undefined : value),
    );
    await transaction.query(sql.typeAlias("void")`
      WITH given AS MATERIALIZED (
        SELECT nextval(pg_get_serial_sequence('reconciliation_stream', 'id')) AS id, stream.*
        FROM json_to_recordset(${part}) AS stream (
          processor text, mode text, kind text, "customerId" text, "accountIds" uuid[], "accountName" text,
          delivered bigint, pending bigint, failed bigint, "processorQuantity" bigint, acknowledged bigint,
          error text, "errorIsTemporary" boolean, differences json
        )
      ),
      inserted AS (
        INSERT INTO reconciliation_stream (
          id, reconciliation_id, processor, mode, kind, customer_id, account_ids, account_name, delivered, pending,
          failed, processor_quantity, acknowledged, error, error_is_temporary
        )
        OVERRIDING SYSTEM VALUE
        SELECT
          id, ${reconciliationId}, processor, mode, kind, "customerId", "accountIds", "accountName", delivered, pending,
          failed, "processorQuantity", acknowledged, error, "errorIsTemporary"
        FROM given
      )
      INSERT INTO reconciliation_difference (reconciliation_stream_id, minute, delivered, processor_quantity, may_lag)
      SELECT given.id, difference.minute, difference.ours, difference.processor, difference."mayLag"
      FROM given
      CROSS JOIN LATERAL json_to_recordset(given.differences) AS difference (
        minute bigint, ours bigint, processor bigint, "mayLag" boolean
      )
    `);
  }
};

/**
 * Deletes rows of the oldest reconciliation without drift that was started before a time: first its streams, which could
 * not be read, then itself.
 * @returns the number of deleted rows, at most `limit`; 0 if no such reconciliation is left
 */
export const deleteOldReconciliations = async (
  db: CommonQueryMethods,
  before: Date,
  limit: number,
): Promise<number> => {
  const oldest = sql.fragment`(
    SELECT id
    FROM reconciliation
    WHERE started_at < ${timestamp(before)} AND coalesce(drifting, 0) = 0
    ORDER BY started_at, id
    LIMIT 1
  )`;
  const { rowCount: streams } = await db.query(sql.typeAlias("void")`
    DELETE FROM reconciliation_stream
    WHERE ctid = ANY(ARRAY(
      SELECT ctid
      FROM reconciliation_stream
      WHERE reconciliation_id = ${oldest}
      LIMIT ${limit}
    ))
  `);
  if (streams > 0) {
    return streams;
  }
  const { rowCount: reconciliations } = await db.query(sql.typeAlias("void")`
    DELETE FROM reconciliation
    WHERE id = ${oldest}
      AND NOT EXISTS (SELECT FROM reconciliation_stream WHERE reconciliation_id = reconciliation.id)
  `);
  return reconciliations;
};

const storedStreamColumns = sql.fragment`
  reconciliation_stream.id,
  processor,
  mode,
  kind,
  customer_id AS "customerId",
  account_ids AS "accountIds",
  account_name AS "accountName",
  reconciliation_stream.delivered,
  pending,
  failed,
  reconciliation_stream.processor_quantity AS "processorQuantity",
  acknowledged,
  error,
  error_is_temporary AS "errorIsTemporary"
`;

/** Lists the streams that drifted or could not be read. */
export const listReconciliationStreams = (
  db: CommonQueryMethods,
  reconciliationId: string,
): Promise<readonly StoredStream[]> =>
  db.any(sql.type(storedStreamRow)`
    SELECT ${storedStreamColumns}
    FROM reconciliation_stream
    WHERE reconciliation_id = ${reconciliationId}
    ORDER BY id
  `);

const storedDifferenceColumns = sql.fragment`
  reconciliation_difference.id,
  minute,
  reconciliation_difference.delivered AS ours,
  reconciliation_difference.processor_quantity AS processor,
  may_lag AS "mayLag"
`;

export const listReconciliationDifferences = (
  db: CommonQueryMethods,
  streamId: bigint,
): Promise<readonly StoredDifference[]> =>
  db.any(sql.type(storedDifferenceRow)`
    SELECT ${storedDifferenceColumns}
    FROM reconciliation_difference
    WHERE reconciliation_stream_id = ${streamId}
    ORDER BY minute
  `);

const foundDifferenceRow = storedDifferenceRow.extend({
  startedAt: z.date(),
  customerId: reportedStreamColumns.customerId,
  accountIds: reportedStreamColumns.accountIds,
  billedBy: reportedStreamColumns.processor,
  mode: reportedStreamColumns.mode,
  kind: reportedStreamColumns.kind,
});

export type FoundDifference = StoredDifference &
  Pick<ReportedStream, "customerId" | "accountIds" | "mode" | "kind"> & {
    readonly startedAt: Date;
    readonly billedBy: ReportedStream["processor"];
  };

export const findReconciliationDifference = (
  db: CommonQueryMethods,
  id: bigint,
): Promise<FoundDifference | null> =>
  db.maybeOne(sql.type(foundDifferenceRow)`
    SELECT
      ${storedDifferenceColumns},
      started_at AS "startedAt",
      customer_id AS "customerId",
      account_ids AS "accountIds",
      reconciliation_stream.processor AS "billedBy",
      mode,
      kind
    FROM reconciliation_difference
    JOIN reconciliation_stream ON reconciliation_stream.id = reconciliation_stream_id
    JOIN reconciliation ON reconciliation.id = reconciliation_id
    WHERE reconciliation_difference.id = ${id}
  `);

/** Returns the complete reconciliation that started last; null if there was none. */
export const findLastReconciliation = (
  db: CommonQueryMethods,
): Promise<StoredReconciliation | null> =>
  db.maybeOne(sql.type(reconciliationRow)`
    SELECT ${reconciliationColumns}
    FROM reconciliation
    WHERE is_complete
    ORDER BY started_at DESC
    LIMIT 1
  `);

const statusRow = z.strictObject({
  lastSuccessAt: z.date().nullable(),
  installedAt: z.date(),
  driftUnits: z.bigint().transform(Number),
  unreadable: z.int(),
  hasFailed: z.boolean(),
});

/** What the metrics and `doctor` report of complete reconciliations. */
export type ReconciliationStatus = Readonly<z.output<typeof statusRow>>;

/** Drift, unreadable streams and `hasFailed` are of the last reconciliation that has results. One that failed can hide drift. */
export const readReconciliationStatus = (db: CommonQueryMethods): Promise<ReconciliationStatus> =>
  db.one(sql.type(statusRow)`
    SELECT
      (
        SELECT ended_at
        FROM reconciliation
        WHERE is_complete AND ended_at IS NOT NULL AND error IS NULL
        ORDER BY started_at DESC
        LIMIT 1
      ) AS "lastSuccessAt",
      (SELECT min(applied_at) FROM schema_migration) AS "installedAt",
      coalesce(last.drift_units, 0) AS "driftUnits",
      coalesce(last.unreadable, 0) AS unreadable,
      last.error IS NOT NULL AS "hasFailed"
    FROM (VALUES (true)) AS always (present)
    LEFT JOIN LATERAL (
      SELECT drift_units, unreadable, error
      FROM reconciliation
      WHERE is_complete AND ended_at IS NOT NULL AND streams IS NOT NULL
      ORDER BY started_at DESC
      LIMIT 1
    ) AS last ON true
  `);
