import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const cachedRow = z.strictObject({ body: z.string(), storedAt: z.date() });

/** An answer as every process gives it until it expires. */
export type CachedResponse = Readonly<z.output<typeof cachedRow>>;

export const SUMMARY_KEY = "summary";
export const treeKey = (registrationId: string): string => `tree/${registrationId}`;

/**
 * An answer that is still good; null when there is none.
 * @param baseUrl where the service is reached, since the answer's addresses begin with it
 */
export const findCachedResponse = (
  db: CommonQueryMethods,
  key: string,
  baseUrl: string,
  now: Date,
): Promise<CachedResponse | null> =>
  db.maybeOne(sql.type(cachedRow)`
    SELECT body, stored_at AS "storedAt"
    FROM cached_response
    WHERE key = ${key} AND base_url = ${baseUrl} AND expires_at > ${now.toISOString()}::timestamptz
  `);

/**
 * Keeps an answer unless there is a good one with the same addresses and of the same revision or a later one already.
 * @returns the answer that is good now: this one, or what another process stored first
 */
export const storeCachedResponse = (
  db: CommonQueryMethods,
  answer: CachedResponse & {
    readonly key: string;
    readonly baseUrl: string;
    readonly revision: number;
    readonly expiresAt: Date;
  },
): Promise<CachedResponse> =>
  db.one(sql.type(cachedRow)`
    INSERT INTO cached_response AS known (key, base_url, revision, body, stored_at, expires_at)
    VALUES (
      ${answer.key}, ${answer.baseUrl}, ${answer.revision}, ${answer.body}, ${answer.storedAt.toISOString()}::timestamptz,
      ${answer.expiresAt.toISOString()}::timestamptz
    )
    ON CONFLICT (key) DO UPDATE SET
      (base_url, revision, body, stored_at, expires_at) = (
        SELECT chosen.base_url, chosen.revision, chosen.body, chosen.stored_at, chosen.expires_at
        FROM (
          VALUES
            (known.base_url, known.revision, known.body, known.stored_at, known.expires_at),
            (excluded.base_url, excluded.revision, excluded.body, excluded.stored_at, excluded.expires_at)
        ) AS chosen (base_url, revision, body, stored_at, expires_at)
        ORDER BY chosen.base_url = ${answer.baseUrl} DESC,
          chosen.expires_at > ${answer.storedAt.toISOString()}::timestamptz DESC, chosen.revision DESC,
          chosen.stored_at
        LIMIT 1
      )
    RETURNING body, stored_at AS "storedAt"
  `);

/** @returns how many were dropped */
export const deleteCachedResponses = async (
  db: CommonQueryMethods,
  /** One answer's key; null for all. */
  key: string | null,
): Promise<number> => {
  const { rowCount } = await db.query(
    key === null
      ? sql.typeAlias("void")`
        DELETE FROM cached_response
      `
      : sql.typeAlias("void")`
        DELETE FROM cached_response
        WHERE key = ${key}
      `,
  );
  return rowCount;
};

export const deleteExpiredResponses = async (db: CommonQueryMethods, now: Date): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM cached_response
    WHERE expires_at <= ${now.toISOString()}::timestamptz
  `);
};
