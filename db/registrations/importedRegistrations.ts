import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { ImportedRegistration } from "../../domain/registrations/importedRegistration.ts";
import { sql } from "../sql.ts";
import { asTotalError } from "./totals.ts";

/** An imported registration with the id derived from its content. */
export type ImportedEntry = ImportedRegistration & { readonly id: string };

/**
 * Creates a temporary table that counts how often each content has occurred, which may be too much for memory. It must
 * be dropped before the connection is reused.
 */
export const createOccurrences = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.query(sql.typeAlias("void")`
    CREATE TEMPORARY TABLE import_occurrence (content uuid PRIMARY KEY, count integer NOT NULL)
  `);
};

export const dropOccurrences = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.query(sql.typeAlias("void")`
    DROP TABLE import_occurrence
  `);
};

const occurrenceRow = z.strictObject({ content: z.string(), count: z.int() });

/**
 * Adds occurrences of distinct contents and returns how often each has occurred in total.
 */
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

/**
 * Records a batch and its totals in one statement, all or nothing. There is no usage, since another system billed it. An
 * entry whose id or idempotency key exists is skipped.
 *
 * Rows and totals are inserted in the same order as those of new registrations, so that the two cannot deadlock.
 * @returns how many were new
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImportedRegistrations = async (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  entries: readonly ImportedEntry[],
): Promise<number> => {
  const input = JSON.stringify(
    entries.map((entry) => [
      entry.id,
      entry.kind,
      entry.count,
      entry.fractionalCount,
      entry.createdAt,
      entry.idempotencyKey,
      entry.attribution,
      entry.metadata,
    ]),
  );
  try {
    const inserted = await db.oneFirst(sql.type(z.strictObject({ inserted: z.bigint() }))`
      WITH entry AS MATERIALIZED (
        SELECT
          (value ->> 0)::uuid AS id,
          value ->> 1 AS kind,
          (value ->> 2)::bigint AS count,
          (value ->> 3)::double precision AS fractional_count,
          (value ->> 4)::timestamptz AS created_at,
          value ->> 5 AS idempotency_key,
          value ->> 6 AS attribution,
          (value -> 7)::jsonb AS metadata
        FROM json_array_elements(${input}::json) AS value
      ),
      inserted AS (
        INSERT INTO registration
          (id, account_id, mode, kind, count, fractional_count, created_at, idempotency_key, attribution, metadata)
        SELECT
          id, ${accountId}::uuid, ${mode}, kind, count, fractional_count, created_at, idempotency_key, attribution,
          metadata
        FROM entry
        ORDER BY kind, idempotency_key, id
        ON CONFLICT DO NOTHING
        RETURNING kind, count, created_at
      ),
      addition AS (
        SELECT kind, period, sum(count)::bigint AS count
        FROM inserted
        CROSS JOIN LATERAL (
          VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))
        ) AS span (period)
        GROUP BY kind, period
      ),
      new_total AS (
        INSERT INTO impact_total (account_id, mode, kind, period, total)
        SELECT ${accountId}::uuid, ${mode}, kind, period, count
        FROM addition
        ORDER BY kind, period
        ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
      )
      SELECT count(*) AS inserted
      FROM inserted
    `);
    return Number(inserted);
  } catch (error) {
    throw asTotalError(error, "impact_total_safe", "count");
  }
};
