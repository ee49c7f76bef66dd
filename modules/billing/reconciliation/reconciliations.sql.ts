import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { columnsOf, sql, timestamp } from "../../../db/sql.ts";

const reconciliationRow = z.strictObject({
  startedAt: z.date(),
  endedAt: z.date(),
  streams: z.int(),
  error: z.string().nullable(),
});

/** A comparison of all of the processor's sums with ours. It failed if it has an error. */
export type StoredReconciliation = Readonly<z.output<typeof reconciliationRow>>;

export const insertReconciliation = async (
  db: CommonQueryMethods,
  { startedAt, endedAt, streams, error }: StoredReconciliation,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (started_at, ended_at, streams, error)
    VALUES (${timestamp(startedAt)}, ${timestamp(endedAt)}, ${streams}, ${error})
  `);
};

export const findLastReconciliation = (db: CommonQueryMethods) =>
  db.maybeOne(sql.type(reconciliationRow)`
    SELECT ${columnsOf("reconciliation", reconciliationRow)}
    FROM reconciliation
    ORDER BY started_at DESC
    LIMIT 1
  `);

const successRow = z.strictObject({ lastSuccessAt: z.date().nullable(), installedAt: z.date() });

/** Returns what metrics and `doctor` report. */
export const readLastSuccess = (db: CommonQueryMethods) =>
  db.one(sql.type(successRow)`
    SELECT
      (SELECT ended_at FROM reconciliation WHERE error IS NULL ORDER BY started_at DESC LIMIT 1) AS "lastSuccessAt",
      (SELECT min(applied_at) FROM schema_migration) AS "installedAt"
  `);
