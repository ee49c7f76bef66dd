import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { ownerColumns } from "../../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { streamsTable } from "../streams.sql.ts";
import { PROCESSORS } from "../usage.rules.ts";
import { LEASE_MS, MAXIMUM_DELAY_MS } from "./decideNextStep.rules.ts";

/** The next stream that meets a condition and has facts that are not sealed or a pending event, as a SELECT. */
const nextStream = (condition: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  (
    SELECT account_id, mode, kind
    FROM usage_fact
    WHERE meter_event_id IS NULL AND ${condition}
    ORDER BY account_id, mode, kind
    LIMIT 1
  )
  UNION ALL
  (
    SELECT account_id, mode, kind
    FROM meter_event
    WHERE state = 'pending' AND ${condition}
    ORDER BY account_id, mode, kind
    LIMIT 1
  )
  ORDER BY account_id, mode, kind
  LIMIT 1
`;

/**
 * Defines the recursive query `stream`: the streams with usage that is not reported, in the order of their keys. It steps
 * through two partial indexes from stream to stream, so its cost grows with the number of streams, not with their rows.
 * @param after the stream that they follow; null: all streams
 */
const unreportedStreams = (after: Owner | null): FragmentSqlToken => {
  const isAfter =
    after === null
      ? sql.fragment`true`
      : sql.fragment`(account_id, mode, kind) > (${after.accountId}::uuid, ${after.mode}, ${after.kind})`;
  return sql.fragment`
    stream AS (
      (${nextStream(isAfter)})
      UNION ALL
      SELECT following.*
      FROM stream
      CROSS JOIN LATERAL (
        ${nextStream(sql.fragment`(account_id, mode, kind) > (stream.account_id, stream.mode, stream.kind)`)}
      ) AS following
    )`;
};

/** The condition that a row of a table is of a stream of the query. */
const isOfStream = sql.fragment`account_id = stream.account_id AND mode = stream.mode AND kind = stream.kind`;

/** The oldest second of a stream of the query that has facts which are not sealed, as a table. */
const oldestUnsealed = sql.fragment`
  (SELECT second FROM usage_fact WHERE ${isOfStream} AND meter_event_id IS NULL ORDER BY second LIMIT 1)
`;

const waitingRow = z.strictObject({ ...ownerColumns, second: safeInteger, attempts: z.int() });

/** A stream with unreported usage, the oldest second of it, and the attempts of its pending event. */
export type WaitingStream = Readonly<z.output<typeof waitingRow>>;

/** Lists the streams with unsealed facts or a pending event, the one with the oldest first. */
export const listWaitingStreams = (db: CommonQueryMethods): Promise<readonly WaitingStream[]> =>
  db.any(sql.type(waitingRow)`
    WITH RECURSIVE ${unreportedStreams(null)}
    SELECT
      account_id AS "accountId", mode, kind,
      least(unsealed.second, pending.second) AS second,
      coalesce(pending.attempts, 0) AS attempts
    FROM stream
    LEFT JOIN LATERAL ${oldestUnsealed} AS unsealed ON true
    CROSS JOIN LATERAL (
      SELECT min(second) AS second, max(attempts) AS attempts FROM meter_event WHERE ${isOfStream} AND state = 'pending'
    ) AS pending
    ORDER BY second
  `);

/** Returns when the lease of an attempt ends that begins at a time. */
export const leaseEnd = (now: Date): Date => new Date(now.getTime() + LEASE_MS);

/**
 * The condition of a pending event that the sender may attempt: one without an attempt under its identifier, one whose attempt
 * ended with its process, or one whose retry is due. A lease or a delay that would last longer than any does was recorded before
 * the clock was set back; the clocks of two machines differ by less.
 */
export const isResumable = (now: Date): FragmentSqlToken => {
  const until = sql.fragment`coalesce(meter_event.leased_until, meter_event.retry_at)`;
  const longestLease = new Date(now.getTime() + 2 * LEASE_MS);
  const longestDelay = new Date(now.getTime() + 2 * MAXIMUM_DELAY_MS);
  return sql.fragment`(
    ${until} IS NULL
    OR ${until} <= ${timestamp(now)}
    OR ${until} > CASE WHEN meter_event.leased_until IS NULL THEN ${timestamp(longestDelay)} ELSE ${timestamp(longestLease)} END
  )`;
};

/**
 * The next event of a stream of the query, as a table: the one that is being sent, or else one about which the processor is
 * asked now, or else the first one that waits. The offset keeps the planner from reading all pending events for a few
 * streams.
 */
const nextEvent = (now: Date): FragmentSqlToken => {
  const pending = sql.fragment`FROM meter_event WHERE ${isOfStream} AND state = 'pending'`;
  return sql.fragment`
    (
      (SELECT * ${pending} AND first_attempt_at IS NOT NULL AND asking_since IS NULL OFFSET 0)
      UNION ALL
      (
        SELECT * ${pending} AND asking_since IS NOT NULL AND ${isResumable(now)}
        ORDER BY retry_at
        LIMIT 1
      )
      UNION ALL
      (SELECT * ${pending} AND asking_since IS NULL ORDER BY id LIMIT 1)
      LIMIT 1
    )
  `;
};

const nextRow = z.strictObject({
  ...ownerColumns,
  id: z.bigint(),
  processor: z.enum(PROCESSORS),
  isResumable: z.boolean(),
});

/** Returns the next events of the streams that have one, and whether the sender may attempt them. */
export const listNextEvents = (
  db: CommonQueryMethods,
  streams: readonly Owner[],
  now: Date,
): Promise<readonly Readonly<z.output<typeof nextRow>>[]> =>
  db.any(sql.type(nextRow)`
    SELECT
      meter_event.account_id AS "accountId", meter_event.mode, meter_event.kind, meter_event.id, meter_event.processor,
      ${isResumable(now)} AS "isResumable"
    FROM ${streamsTable(streams)}
    CROSS JOIN LATERAL ${nextEvent(now)} AS meter_event
  `);

const unsentRow = z.strictObject({ ...ownerColumns, firstSecond: safeInteger });

/** A stream with something to send, and the first second that may have usage to seal. */
export type UnsentStream = Readonly<z.output<typeof unsentRow>>;

/**
 * Lists the streams with something to send, in the order of their keys: their next event may be attempted, or they have none and
 * usage that may be sealed. The query stops at the limit, so a page costs the same however many streams wait.
 * @param after the last stream of the page before; null for the first page
 * @param lastSecond the last second that may be sealed
 */
export const listUnsentStreams = (
  db: CommonQueryMethods,
  {
    after,
    now,
    lastSecond,
    limit,
  }: {
    readonly after: Owner | null;
    readonly now: Date;
    readonly lastSecond: number;
    readonly limit: number;
  },
): Promise<readonly UnsentStream[]> =>
  db.any(sql.type(unsentRow)`
    WITH RECURSIVE ${unreportedStreams(after)}
    SELECT
      stream.account_id AS "accountId", stream.mode, stream.kind, coalesce(unsealed.second, 0) AS "firstSecond"
    FROM stream
    LEFT JOIN LATERAL ${nextEvent(now)} AS meter_event ON true
    LEFT JOIN LATERAL ${oldestUnsealed} AS unsealed ON true
    WHERE CASE WHEN meter_event.id IS NULL THEN unsealed.second <= ${lastSecond} ELSE ${isResumable(now)} END
    LIMIT ${limit}
  `);
