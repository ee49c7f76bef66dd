import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { ownerColumns } from "../../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { streamsTable } from "../streams.sql.ts";
import { PROCESSORS } from "../usage.rules.ts";
import { LEASE_MS, MAXIMUM_DELAY_MS } from "./decideNextStep.rules.ts";

const waitingRow = z.strictObject({ ...ownerColumns, second: safeInteger, attempts: z.int() });

/** The rows of an index whose columns begin with those of a stream, and the next one of them. */
const UNSEALED = {
  rows: sql.fragment`FROM usage_fact WHERE meter_event_id IS NULL`,
  columns: sql.fragment`account_id, mode, kind, second`,
};
const PENDING = {
  rows: sql.fragment`FROM meter_event WHERE state = 'pending'`,
  columns: sql.fragment`account_id, mode, kind, id`,
};

/** The condition of the streams that follow one in the order of their keys; null: of all. */
const isAfter = (stream: Owner | null): FragmentSqlToken =>
  stream === null
    ? sql.fragment`true`
    : sql.fragment`(account_id, mode, kind) > (${stream.accountId}::uuid, ${stream.mode}, ${stream.kind})`;

/**
 * Defines the recursive query `stream`: each stream after one, with the first of its rows. It steps through an index from
 * stream to stream, so its cost grows with the number of streams, not with their rows.
 */
const defineStreams = ({ rows, columns }: typeof UNSEALED, after: Owner | null) => sql.fragment`
  RECURSIVE stream AS (
    (SELECT ${columns} ${rows} AND ${isAfter(after)} ORDER BY ${columns} LIMIT 1)
    UNION ALL
    SELECT following.*
    FROM stream
    CROSS JOIN LATERAL (
      SELECT ${columns}
      ${rows} AND (account_id, mode, kind) > (stream.account_id, stream.mode, stream.kind)
      ORDER BY ${columns}
      LIMIT 1
    ) AS following
  )
`;

/**
 * Lists the streams with unreported usage, and the attempts of their pending event, the one with the oldest second first.
 * @param askedSince leaves out the events that the processor cannot be asked about yet: they may have been sent since then
 */
export const listWaitingStreams = (db: CommonQueryMethods, askedSince: Date | null = null) =>
  db.any(sql.type(waitingRow)`
    WITH ${defineStreams(UNSEALED, null)}
    SELECT account_id AS "accountId", mode, kind, min(second) AS second, max(attempts) AS attempts
    FROM (
      SELECT account_id, mode, kind, second, 0 AS attempts FROM stream
      UNION ALL
      SELECT account_id, mode, kind, second, attempts
      FROM meter_event
      WHERE state = 'pending'
        AND (asking_since >= ${timestamp(askedSince)}) IS NOT TRUE
    ) AS unreported
    GROUP BY account_id, mode, kind
    ORDER BY min(second)
  `);

export const leaseEnd = (now: Date): Date => new Date(now.getTime() + LEASE_MS);

/**
 * The condition of a pending event that the sender may attempt. A lease or a delay that would last longer than any does was
 * recorded before the clock was set back; the clocks of two machines differ by less.
 */
export const isResumable = (now: Date): FragmentSqlToken => {
  const until = sql.fragment`coalesce(meter_event.leased_until, meter_event.retry_at)`;
  const latest = new Date(now.getTime() + 2 * MAXIMUM_DELAY_MS);
  return sql.fragment`((${until} > ${timestamp(now)} AND ${until} <= ${timestamp(latest)}) IS NOT TRUE)`;
};

/**
 * The next event of a stream of the query: the one that is being sent, or else one about which the processor is asked now, or
 * else the first one. The offset keeps the planner from reading all pending events for a few streams.
 */
const nextEvent = (now: Date): FragmentSqlToken => {
  const pending = sql.fragment`
    FROM meter_event
    WHERE (account_id, mode, kind) = (stream.account_id, stream.mode, stream.kind) AND state = 'pending'
  `;
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
export const listNextEvents = (db: CommonQueryMethods, streams: readonly Owner[], now: Date) =>
  db.any(sql.type(nextRow)`
    SELECT
      meter_event.account_id AS "accountId", meter_event.mode, meter_event.kind, meter_event.id, meter_event.processor,
      ${isResumable(now)} AS "isResumable"
    FROM ${streamsTable(streams)}
    CROSS JOIN LATERAL ${nextEvent(now)} AS meter_event
  `);

const isNotHeld = sql.fragment`(SELECT held_at IS NULL FROM deployment)`;

const unsentRow = z.strictObject({ ...ownerColumns, firstSecond: safeInteger });

/**
 * A stream with something to send, and the first second that may have usage to seal. `hasUnsent`: there was only usage that is
 * sealed and not sent, and probably there is more.
 */
export type UnsentStream = Readonly<z.output<typeof unsentRow>> & { readonly hasUnsent?: boolean };

/**
 * Lists the streams with facts that may be sealed and nothing that waits to be sent, in the order of their keys. It stops
 * at the limit, so a page costs the same however many streams wait.
 * @param page.after the last stream of the page before; null for the first page
 */
export const listReadyStreams = (
  db: CommonQueryMethods,
  page: { readonly after: Owner | null; readonly lastSecond: number; readonly limit: number },
): Promise<readonly UnsentStream[]> =>
  db.any(sql.type(unsentRow)`
    WITH ${defineStreams(UNSEALED, page.after)}
    SELECT account_id AS "accountId", mode, kind, second AS "firstSecond"
    FROM stream
    WHERE second <= ${page.lastSecond}
      AND ${isNotHeld}
      AND NOT EXISTS (
        SELECT
        FROM meter_event
        WHERE (account_id, mode, kind) = (stream.account_id, stream.mode, stream.kind)
          AND state = 'pending'
          AND asking_since IS NULL
        -- Keeps this a look-up for each stream, so that the scan can stop at the limit.
        OFFSET 0
      )
    LIMIT ${page.limit}
  `);

/** Lists the streams whose next event the sender may attempt, in the order of their keys. */
export const listResumableStreams = (
  db: CommonQueryMethods,
  page: { readonly after: Owner | null; readonly now: Date; readonly limit: number },
): Promise<readonly UnsentStream[]> =>
  db.any(sql.type(unsentRow)`
    WITH ${defineStreams(PENDING, page.after)}
    SELECT stream.account_id AS "accountId", stream.mode, stream.kind, 0::bigint AS "firstSecond"
    FROM stream
    CROSS JOIN LATERAL ${nextEvent(page.now)} AS meter_event
    WHERE ${isResumable(page.now)} AND ${isNotHeld}
    LIMIT ${page.limit}
  `);
