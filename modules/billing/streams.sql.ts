import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { safeInteger, nothing, sql, values } from "../../db/sql.ts";
import type { Span } from "./usage.rules.ts";

/** Selects the rows of a table whose second is in a span; null selects all. */
export const inSpan = (table: string, span: Span | null): FragmentSqlToken => {
  const second = sql.identifier([table, "second"]);
  return span === null
    ? sql.fragment`true`
    : sql.fragment`${second} >= ${span.start} AND ${second} < ${span.end}`;
};

export const STREAM = { accountId: "uuid", mode: "text", kind: "text" } as const;

/** The streams as a table `stream`, with their places among them, counted from 1. */
export const streamsTable = (streams: readonly Owner[]): FragmentSqlToken =>
  sql.fragment`(${jsonRows(STREAM, streams)}) AS stream`;

const lockKey = sql.fragment`
  hashtextextended('usage/' || stream.account_id || '/' || stream.mode || '/' || stream.kind, 0)
`;

/**
 * Locks streams until the transaction ends, as sealing, retrying and closing must. All transactions lock streams in the same
 * order, so they cannot wait for each other.
 */
export const lockStreams = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly Owner[],
): Promise<void> => {
  await transaction.query(sql.prepared("lock_streams", nothing)`
    SELECT
    FROM (
      SELECT pg_advisory_xact_lock(${lockKey})
      FROM (SELECT * FROM ${streamsTable(streams)} ORDER BY account_id, mode, kind) AS stream
    ) AS locked
  `);
};

/**
 * Locks minutes of the processor's sums until the transaction ends. A decision that depends on a sum needs the lock:
 * streams are locked by account, but several accounts may have usage of the customer in that minute. Must run after the
 * locks of streams.
 * @param keys name the kind, customer and minute
 */
export const lockMinutes = async (
  transaction: DatabaseTransactionConnection,
  keys: readonly string[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT
    FROM (
      SELECT pg_advisory_xact_lock(hashtextextended('usage-minute/' || minute.key, 0))
      FROM (SELECT key FROM ${values(keys)} AS key ORDER BY key) AS minute
    ) AS locked
  `);
};

const placeRow = z.strictObject({ place: safeInteger });

/**
 * Locks streams until this transaction ends, and returns those that no other has locked. It never waits, so it cannot be
 * part of a deadlock, and an operator's work on one stream does not delay the others.
 */
export const tryLockStreams = async <Stream extends Owner>(
  transaction: DatabaseTransactionConnection,
  streams: readonly Stream[],
): Promise<readonly Stream[]> => {
  const places = await transaction.anyFirst(sql.type(placeRow)`
    SELECT place
    FROM ${streamsTable(streams)}
    WHERE pg_try_advisory_xact_lock(${lockKey})
  `);
  const locked = new Set(places);
  return streams.filter((_, index) => locked.has(index + 1));
};
