import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn } from "../../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
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

const streamRow = z.strictObject({
  kind: kindColumn,
  customerId: z.string(),
  accountIds: z.tuple([z.uuid()], z.uuid()),
  accountName: z.string(),
  delivered: safeInteger,
  processorQuantity: safeInteger.nullable(),
  error: z.string().nullable(),
});

/** A stream that differed or could not be read. */
export type StoredStream = Readonly<z.output<typeof streamRow>>;

/** Replaces the streams that an earlier poll stored for the reconciliation. */
export const replaceReconciliationStreams = async (
  transaction: DatabaseTransactionConnection,
  reconciliationId: string,
  streams: readonly StoredStream[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM reconciliation_stream WHERE reconciliation_id = ${reconciliationId}
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO reconciliation_stream
      (reconciliation_id, kind, customer_id, account_ids, delivered, processor_quantity, error)
    SELECT ${reconciliationId}, kind, "customerId", "accountIds", delivered, "processorQuantity", error
    FROM json_to_recordset(${JSON.stringify(
      streams.map(({ kind, customerId, accountIds, delivered, processorQuantity, error }) => ({
        kind,
        customerId,
        accountIds,
        delivered,
        processorQuantity,
        error,
      })),
    )}) AS stream (
      kind text, "customerId" text, "accountIds" uuid[], delivered bigint, "processorQuantity" bigint, error text
    )
  `);
};

/** Lists the streams that differed or could not be read. */
export const listReconciliationStreams = (
  db: CommonQueryMethods,
  reconciliationId: string,
): Promise<readonly StoredStream[]> =>
  db.any(sql.type(streamRow)`
    SELECT
      kind,
      customer_id AS "customerId",
      account_ids AS "accountIds",
      (
        SELECT string_agg(account.name, ', ' ORDER BY named.place)
        FROM unnest(account_ids) WITH ORDINALITY AS named (id, place)
        JOIN account ON account.id = named.id
      ) AS "accountName",
      delivered,
      processor_quantity AS "processorQuantity",
      error
    FROM reconciliation_stream
    WHERE reconciliation_id = ${reconciliationId}
    ORDER BY customer_id, kind
  `);

/**
 * Deletes the oldest reconciliation that was started before a time.
 * @returns the number of deleted rows; 0 if no such reconciliation is left
 */
export const deleteOldReconciliations = async (
  db: CommonQueryMethods,
  before: Date,
  limit: number,
): Promise<number> => {
  const oldest = sql.fragment`(
    SELECT id
    FROM reconciliation
    WHERE started_at < ${timestamp(before)}
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
  unreadable: z.int(),
  hasFailed: z.boolean(),
});

/** What the metrics and `doctor` report of complete reconciliations. */
export type ReconciliationStatus = Readonly<z.output<typeof statusRow>>;

/** Unreadable streams and `hasFailed` are of the last reconciliation that has results. One that failed can hide differences. */
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
      coalesce(last.unreadable, 0) AS unreadable,
      last.error IS NOT NULL AS "hasFailed"
    FROM (VALUES (true)) AS always (present)
    LEFT JOIN LATERAL (
      SELECT unreadable, error
      FROM reconciliation
      WHERE is_complete AND ended_at IS NOT NULL AND streams IS NOT NULL
      ORDER BY started_at DESC
      LIMIT 1
    ) AS last ON true
  `);
