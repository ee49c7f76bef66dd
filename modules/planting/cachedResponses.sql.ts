import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { countDeleted, deletedRow, startingAt } from "../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { MODES } from "../records/owner.rules.ts";
import type { Mode } from "../records/owner.rules.ts";
import { isSimulated } from "./order.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";

const cachedRow = z.strictObject({ body: z.string(), storedAt: z.date() });

/** The text of a response that every process returns until it expires. */
export type CachedResponse = Readonly<z.output<typeof cachedRow>>;

/** The trees of one summary: simulated and real ones are never in the same, nor those of both modes. */
export type SummarizedTrees = { readonly mode: Mode; readonly isSimulated: boolean };

export const summaryKey = (trees: SummarizedTrees): string =>
  `summary/${trees.mode}/${trees.isSimulated ? "simulated" : "real"}`;

const SUMMARY_KEYS = MODES.flatMap((mode) =>
  [true, false].map((simulated) => summaryKey({ mode, isSimulated: simulated })),
);

export const treeKey = (registrationId: string): string => `tree/${registrationId}`;

/** Returns the key of the registration of a query, as `treeKey` does. */
export const treeKeyColumn = sql.fragment`'tree/' || registration.id`;

/** Locks the summaries until the transaction ends, so that one of earlier facts is not cached afterwards. */
export const lockSummary = async (transaction: DatabaseTransactionConnection): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT
    FROM pg_advisory_xact_lock(hashtext('evidence_summary'))
  `);
};

/**
 * Finds a valid response.
 * @param baseUrl the public base URL that the response's URLs must start with
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
    WHERE key = ${key} AND base_url = ${baseUrl} AND expires_at > ${timestamp(now)}
  `);

/**
 * Stores a response, unless a valid one with the same base URL and the same or a later revision exists.
 * @returns the stored response: this one, or the one of another process
 */
export const storeCachedResponse = (
  db: CommonQueryMethods,
  response: CachedResponse & {
    readonly key: string;
    readonly baseUrl: string;
    readonly revision: bigint;
    readonly expiresAt: Date;
  },
): Promise<CachedResponse> =>
  db.one(sql.type(cachedRow)`
    INSERT INTO cached_response AS known (key, base_url, revision, body, stored_at, expires_at)
    VALUES (
      ${response.key}, ${response.baseUrl}, ${response.revision}, ${response.body}, ${timestamp(response.storedAt)},
      ${timestamp(response.expiresAt)}
    )
    ON CONFLICT (key) DO UPDATE SET
      (base_url, revision, body, stored_at, expires_at) = (
        SELECT chosen.base_url, chosen.revision, chosen.body, chosen.stored_at, chosen.expires_at
        FROM (
          VALUES
            (known.base_url, known.revision, known.body, known.stored_at, known.expires_at),
            (excluded.base_url, excluded.revision, excluded.body, excluded.stored_at, excluded.expires_at)
        ) AS chosen (base_url, revision, body, stored_at, expires_at)
        ORDER BY chosen.base_url = ${response.baseUrl} DESC,
          chosen.expires_at > ${timestamp(response.storedAt)} DESC, chosen.revision DESC,
          chosen.stored_at
        LIMIT 1
      )
    RETURNING body, stored_at AS "storedAt"
  `);

/**
 * Deletes cached responses.
 * @param keys null for all
 * @returns the number of deleted responses
 */
export const deleteCachedResponses = async (
  db: CommonQueryMethods,
  keys: readonly string[] | null,
): Promise<number> => {
  const { rowCount } = await db.query(
    keys === null
      ? sql.typeAlias("void")`
        DELETE FROM cached_response
      `
      : sql.typeAlias("void")`
        DELETE FROM cached_response
        WHERE key = ANY(${sql.array(keys, "text")})
      `,
  );
  return rowCount;
};

/**
 * Deletes cached summaries, so that the next request calculates them. To avoid deadlocks, lock planting orders before.
 * @param order the order that changes a summary; null for all summaries
 * @returns the number of deleted summaries
 */
export const deleteSummaries = async (
  transaction: DatabaseTransactionConnection,
  order: Pick<PlantingOrder, "mode" | "partner"> | null,
): Promise<number> => {
  await lockSummary(transaction);
  const keys =
    order === null
      ? SUMMARY_KEYS
      : [summaryKey({ mode: order.mode, isSimulated: isSimulated(order.partner) })];
  return deleteCachedResponses(transaction, keys);
};

/**
 * Deletes expired responses, in the order in which they expired.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteExpiredResponses = (
  db: CommonQueryMethods,
  { from, now }: { readonly from: Date | null; readonly now: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM cached_response
      WHERE key IN (
        SELECT key
        FROM cached_response
        WHERE expires_at >= ${startingAt(from)} AND expires_at <= ${timestamp(now)}
        ORDER BY expires_at
        LIMIT ${limit}
        -- One that is being stored anew is no longer expired.
        FOR UPDATE SKIP LOCKED
      )
      RETURNING expires_at AS time
    )
    ${countDeleted}
  `);
