import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { safeInteger, nothing, sql } from "../../db/sql.ts";
import type { Span } from "./usage.rules.ts";

/** The condition that a row belongs to a stream. */
export const ofStream = (
  table: "meter_event" | "usage_fact",
  { accountId, mode, kind }: Owner,
): FragmentSqlToken => {
  const row = sql.identifier([table]);
  return sql.fragment`${row}.account_id = ${accountId} AND ${row}.mode = ${mode} AND ${row}.kind = ${kind}`;
};

/** The condition that a unix second is in a span; null stands for all times. */
export const inSpan = (second: FragmentSqlToken, span: Span | null): FragmentSqlToken =>
  span === null
    ? sql.fragment`true`
    : sql.fragment`${second} >= ${span.start} AND ${second} < ${span.end}`;

/** The key of a stream's lock. */
const lockKey = (accountId: FragmentSqlToken, mode: FragmentSqlToken, kind: FragmentSqlToken) =>
  sql.fragment`hashtextextended('usage/' || ${accountId} || '/' || ${mode} || '/' || ${kind}, 0)`;

/**
 * Locks streams until the transaction ends. Sealing, retrying and closing need the lock. All transactions lock streams in the
 * same order, so they cannot wait for each other.
 */
export const lockStreams = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly Owner[],
): Promise<void> => {
  const byKey = new Map(streams.map((stream) => [ownerKey(stream), stream]));
  for (const [, { accountId, mode, kind }] of [...byKey].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const key = lockKey(
      sql.fragment`${accountId}::text`,
      sql.fragment`${mode}::text`,
      sql.fragment`${kind}::text`,
    );
    await transaction.query(sql.prepared("lock_stream", nothing)`
      SELECT FROM (SELECT pg_advisory_xact_lock(${key})) AS locked
    `);
  }
};

/**
 * Locks minutes of the processor's sums until the transaction ends. A decision about usage that depends on a sum needs the
 * lock: streams are locked by account, but several accounts may have usage of the customer in that minute. Must run after
 * the locks of streams.
 * @param keys name the kind, customer and minute
 */
export const lockMinutes = async (
  transaction: DatabaseTransactionConnection,
  keys: readonly string[],
): Promise<void> => {
  for (const key of [...new Set(keys)].toSorted()) {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM (SELECT pg_advisory_xact_lock(hashtextextended(${`usage-minute/${key}`}, 0))) AS locked
    `);
  }
};

/** Parameters that have the values of each stream, and its place among them, counted from 1. */
export const streamsTable = (streams: readonly Owner[]): FragmentSqlToken => sql.fragment`
  unnest(
    ${sql.array(
      streams.map(({ accountId }) => accountId),
      "uuid",
    )},
    ${sql.array(
      streams.map(({ mode }) => mode),
      "text",
    )},
    ${sql.array(
      streams.map(({ kind }) => kind),
      "text",
    )}
  ) WITH ORDINALITY AS stream (account_id, mode, kind, place)
`;

const placeRow = z.strictObject({ place: safeInteger });

/**
 * Locks the streams that no other transaction has locked, until this transaction ends. It never waits, so it cannot be
 * part of a deadlock, and an operator's work on one stream does not delay the others.
 * @returns the streams that were locked
 */
export const tryLockStreams = async <Stream extends Owner>(
  transaction: DatabaseTransactionConnection,
  streams: readonly Stream[],
): Promise<ReadonlySet<Stream>> => {
  const key = lockKey(
    sql.fragment`stream.account_id`,
    sql.fragment`stream.mode`,
    sql.fragment`stream.kind`,
  );
  const places = await transaction.anyFirst(sql.type(placeRow)`
    SELECT place
    FROM ${streamsTable(streams)}
    WHERE pg_try_advisory_xact_lock(${key})
  `);
  const locked = new Set(places);
  return new Set(streams.filter((_, index) => locked.has(index + 1)));
};
