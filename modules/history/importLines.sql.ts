import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";

/** Deletes what a run has read. */
export const deleteImportRun = async (db: CommonQueryMethods, runId: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`DELETE FROM import_line WHERE run_id = ${runId}`);
};

/** Deletes what the runs before one have read. The ids of runs are in the order of time. */
export const deleteImportRunsBefore = async (
  db: CommonQueryMethods,
  runId: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`DELETE FROM import_line WHERE run_id < ${runId}`);
};

const equalRow = z.strictObject({ identity: z.string(), count: z.int() });

/** Adds equal records without an id and a key to a run, and returns how many of each it has read in total. */
export const addEqualRecords = async (
  db: CommonQueryMethods,
  runId: string,
  counts: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.any(sql.type(equalRow)`
    INSERT INTO import_line AS known (run_id, identity, count, content, refunded, line)
    SELECT ${runId}::uuid, identity, count, identity, 0, 0
    FROM unnest(
      ${sql.array([...counts.keys()], "uuid")},
      ${sql.array([...counts.values()], "int4")}
    ) AS further (identity, count)
    ON CONFLICT (run_id, identity) DO UPDATE SET count = known.count + excluded.count
    RETURNING identity, count
  `);
  return new Map(rows.map(({ identity, count }) => [identity, count]));
};

const identityRow = z.strictObject({
  identity: z.string(),
  content: z.string(),
  refunded: safeInteger,
  line: safeInteger,
});

/** A hash of an id or a key, one of its record without refunds, what is refunded, and the line that had it first. */
export type LineIdentity = Readonly<z.output<typeof identityRow>>;

/** Stores identities that no earlier line of the run has, and returns each with the line that had it first. */
export const rememberIdentities = (
  db: CommonQueryMethods,
  runId: string,
  identities: readonly LineIdentity[],
): Promise<readonly LineIdentity[]> =>
  db.any(sql.type(identityRow)`
    INSERT INTO import_line AS known (run_id, identity, count, content, refunded, line)
    SELECT DISTINCT ON (identity) ${runId}::uuid, identity, 1, content, refunded, line
    FROM json_to_recordset(${JSON.stringify(identities)})
      AS given (identity uuid, content uuid, refunded bigint, line bigint)
    ORDER BY identity, line
    -- The update changes nothing: RETURNING needs it.
    ON CONFLICT (run_id, identity) DO UPDATE SET content = known.content
    RETURNING identity, content, refunded, line
  `);

const knownRow = z.strictObject({ identity: z.string() });

/** Lists those of the identities that an earlier line of the run has. */
export const listIdentities = (
  db: CommonQueryMethods,
  runId: string,
  identities: readonly string[],
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(knownRow)`
    SELECT identity
    FROM import_line
    WHERE run_id = ${runId} AND identity = ANY(${sql.array(identities, "uuid")})
  `);
