import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { KINDS } from "../../records/owner.rules.ts";
import { columnsOf, sql, timestamp } from "../../../db/sql.ts";

/** A stream whose usage the processor did not return. */
const unreadableStream = z.strictObject({
  kind: z.enum(KINDS),
  customerId: z.string(),
  accountIds: z.array(z.uuid()),
  accountName: z.string(),
  error: z.string(),
});

const reconciliationRow = z.strictObject({
  startedAt: z.date(),
  endedAt: z.date(),
  streams: z.int(),
  unreadable: z.array(unreadableStream),
  error: z.string().nullable(),
});

/** A comparison of all of the processor's sums with ours. It failed if it has an error. */
export type StoredReconciliation = Readonly<z.output<typeof reconciliationRow>>;

const columns = columnsOf("reconciliation", reconciliationRow);

/** Stores a reconciliation that has ended. */
export const insertReconciliation = async (
  db: CommonQueryMethods,
  { startedAt, endedAt, streams, unreadable, error }: StoredReconciliation,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (started_at, ended_at, streams, unreadable, error)
    VALUES (
      ${timestamp(startedAt)}, ${timestamp(endedAt)}, ${streams}, ${JSON.stringify(unreadable)}::jsonb,
      ${error}
    )
  `);
};

/** Deletes the reconciliations that were started before a time. Returns how many. */
export const deleteOldReconciliations = async (
  db: CommonQueryMethods,
  before: Date,
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM reconciliation WHERE started_at < ${timestamp(before)}
  `);
  return rowCount;
};

/** Returns the reconciliation that started last; null if there was none. */
export const findLastReconciliation = (
  db: CommonQueryMethods,
): Promise<StoredReconciliation | null> =>
  db.maybeOne(sql.type(reconciliationRow)`
    SELECT ${columns} FROM reconciliation ORDER BY started_at DESC LIMIT 1
  `);

const successRow = z.strictObject({ lastSuccessAt: z.date().nullable(), installedAt: z.date() });

/** Returns what metrics and `doctor` report. Unreadable streams and `hasFailed` are of the last one: a failed one can hide differences. */
export const readReconciliationStatus = async (db: CommonQueryMethods) => {
  const last = await findLastReconciliation(db);
  const success = await db.one(sql.type(successRow)`
    SELECT
      (SELECT ended_at FROM reconciliation WHERE error IS NULL ORDER BY started_at DESC LIMIT 1) AS "lastSuccessAt",
      (SELECT min(applied_at) FROM schema_migration) AS "installedAt"
  `);
  const hasFailed = last !== null && last.error !== null;
  return { ...success, unreadable: last?.unreadable.length ?? 0, hasFailed };
};
