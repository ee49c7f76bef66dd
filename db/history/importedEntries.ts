import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { isUuid } from "../../domain/fields.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

/** A record to import, with the id derived from its identity or content. */
export type ImportedEntry<Imported> = { readonly id: string; readonly record: Imported };

export const idRow = z.strictObject({ id: z.uuid() });

export const knownRow = z.strictObject({ place: z.int(), differences: z.array(z.string()) });

/** A recorded record that has the id or the key of a batch's entry, and the fields in which it differs from it. */
export type KnownRecord = Readonly<z.output<typeof knownRow>>;

/** Returns the imported id if it can be the id of a record of this service. */
export const uuidOrNull = (importedId: string | null): string | null =>
  importedId !== null && isUuid(importedId) ? importedId : null;

/**
 * Creates temporary tables of what an import has seen, which may be too much for memory. They must be dropped before the
 * connection is reused.
 */
export const createSeen = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.query(sql.typeAlias("void")`
    CREATE TEMPORARY TABLE import_occurrence (content uuid PRIMARY KEY, count integer NOT NULL)
  `);
  await connection.query(sql.typeAlias("void")`
    CREATE TEMPORARY TABLE import_identity (identity uuid PRIMARY KEY, content uuid NOT NULL, holder bigint NOT NULL)
  `);
};

export const dropSeen = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.query(sql.typeAlias("void")`
    DROP TABLE import_occurrence, import_identity
  `);
};

const occurrenceRow = z.strictObject({ content: z.string(), count: z.int() });

/** Adds occurrences of distinct contents and returns how often each has occurred in total. */
export const addOccurrences = async (
  connection: CommonQueryMethods,
  occurrences: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await connection.any(sql.type(occurrenceRow)`
    INSERT INTO import_occurrence AS known (content, count)
    SELECT content, count
    FROM unnest(
      ${sql.array([...occurrences.keys()], "uuid")},
      ${sql.array([...occurrences.values()], "int4")}
    ) AS further (content, count)
    ON CONFLICT (content) DO UPDATE SET count = known.count + excluded.count
    RETURNING content, count
  `);
  return new Map(rows.map(({ content, count }) => [content, count]));
};

const identityRow = z.strictObject({
  identity: z.string(),
  content: z.string(),
  holder: safeInteger,
});

/** An id or a key of a line, the content of its record, and the line. */
export type LineIdentity = Readonly<z.output<typeof identityRow>>;

/** Stores identities that no earlier line has, and returns each with the line that had it first. */
export const rememberIdentities = (
  connection: CommonQueryMethods,
  identities: readonly LineIdentity[],
): Promise<readonly LineIdentity[]> =>
  connection.any(sql.type(identityRow)`
    INSERT INTO import_identity AS known (identity, content, holder)
    SELECT DISTINCT ON (identity) identity, content, holder
    FROM json_to_recordset(${JSON.stringify(identities)}) AS given (identity uuid, content uuid, holder bigint)
    ORDER BY identity, holder
    -- The update changes nothing: RETURNING needs it.
    ON CONFLICT (identity) DO UPDATE SET content = known.content
    RETURNING identity, content, holder
  `);
