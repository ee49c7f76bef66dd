import { ForeignKeyIntegrityConstraintViolationError } from "slonik";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";

export const insertImportRun = async (
  db: CommonQueryMethods,
  run: { readonly id: string; readonly startedAt: Date },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO import_run (id, started_at)
    VALUES (${run.id}, ${timestamp(run.startedAt)})
  `);
};

/** Deletes a run with all that it has read. */
export const deleteImportRun = async (db: CommonQueryMethods, id: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`DELETE FROM import_run WHERE id = ${id}`);
};

export const deleteImportRunsBefore = async (db: CommonQueryMethods, time: Date): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM import_run WHERE started_at < ${timestamp(time)}
  `);
};

const occurrenceRow = z.strictObject({ content: z.string(), count: z.int() });

/** Adds occurrences of distinct contents to a run, and returns how often it has read each in total. */
export const addOccurrences = async (
  db: CommonQueryMethods,
  runId: string,
  occurrences: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.any(sql.type(occurrenceRow)`
    INSERT INTO import_occurrence AS known (run_id, content, count)
    SELECT ${runId}::uuid, content, count
    FROM unnest(
      ${sql.array([...occurrences.keys()], "uuid")},
      ${sql.array([...occurrences.values()], "int4")}
    ) AS further (content, count)
    ON CONFLICT (run_id, content) DO UPDATE SET count = known.count + excluded.count
    RETURNING content, count
  `);
  return new Map(rows.map(({ content, count }) => [content, count]));
};

const identityRow = z.strictObject({
  identity: z.string(),
  content: z.string(),
  refunded: safeInteger,
  holder: safeInteger,
});

/** An id or a key of a line, the content of its record without refunds, what is refunded, and the line. */
type LineIdentity = Readonly<z.output<typeof identityRow>>;

const knownIdentityRow = z.strictObject({ identity: z.string() });

/** Lists those of the identities that an earlier line of the run has. */
export const listIdentities = (
  db: CommonQueryMethods,
  runId: string,
  identities: readonly string[],
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(knownIdentityRow)`
    SELECT identity
    FROM import_identity
    WHERE run_id = ${runId} AND identity = ANY(${sql.array(identities, "uuid")})
  `);

/** Stores identities that no earlier line of the run has, and returns each with the line that had it first. */
export const rememberIdentities = (
  db: CommonQueryMethods,
  runId: string,
  identities: readonly LineIdentity[],
): Promise<readonly LineIdentity[]> =>
  db.any(sql.type(identityRow)`
    INSERT INTO import_identity AS known (run_id, identity, content, refunded, holder)
    SELECT DISTINCT ON (identity) ${runId}::uuid, identity, content, refunded, holder
    FROM json_to_recordset(${JSON.stringify(identities)})
      AS given (identity uuid, content uuid, refunded bigint, holder bigint)
    ORDER BY identity, holder
    -- The update changes nothing: RETURNING needs it.
    ON CONFLICT (run_id, identity) DO UPDATE SET content = known.content
    RETURNING identity, content, refunded, holder
  `);

/** Whether an error says that the run is gone: a crash of the database empties unlogged tables. */
export const isRunLost = (error: unknown): boolean =>
  error instanceof ForeignKeyIntegrityConstraintViolationError &&
  error.constraint?.startsWith("import_") === true;
