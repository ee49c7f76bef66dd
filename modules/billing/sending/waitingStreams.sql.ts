import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { ownerColumns } from "../../records/columns.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import { UNFINISHED, isResumable } from "../meterEvents.sql.ts";
import type { Owner } from "../../records/owner.rules.ts";
import type { Lease } from "../../../db/leases.ts";

const waitingRow = z.strictObject({ ...ownerColumns, second: safeInteger, attempts: z.int() });

/** A stream with unreported usage, the oldest second of it, and the attempts of its unfinished event. */
export type WaitingStream = Readonly<z.output<typeof waitingRow>>;

/**
 * Defines the query `unsealed`: each stream with facts that are not sealed, and the oldest one's second. It steps through
 * the index from stream to stream, so its cost grows with the number of streams, not with their facts.
 * @param start a condition that only the first stream has to meet
 */
const unsealedStreams = (start: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  unsealed AS (
    (
      SELECT account_id, mode, kind, second
      FROM usage_fact
      WHERE meter_event_id IS NULL AND ${start}
      ORDER BY account_id, mode, kind, second
      LIMIT 1
    )
    UNION ALL
    SELECT following.account_id, following.mode, following.kind, following.second
    FROM unsealed
    CROSS JOIN LATERAL (
      SELECT account_id, mode, kind, second
      FROM usage_fact
      WHERE meter_event_id IS NULL
        AND (account_id, mode, kind) > (unsealed.account_id, unsealed.mode, unsealed.kind)
      ORDER BY account_id, mode, kind, second
      LIMIT 1
    ) AS following
  )`;

/** Defines the query `waiting`: each stream with unsealed facts or an unfinished event. */
const waitingStreams = sql.fragment`
  ${unsealedStreams(sql.fragment`true`)},
  waiting AS (
    SELECT account_id, mode, kind, min(second) AS second, max(attempts) AS attempts
    FROM (
      SELECT account_id, mode, kind, second, 0 AS attempts FROM unsealed
      UNION ALL
      SELECT account_id, mode, kind, second, attempts FROM meter_event WHERE state IN (${UNFINISHED})
    ) AS unreported
    GROUP BY account_id, mode, kind
  )`;

export const listWaitingStreams = (db: CommonQueryMethods): Promise<readonly WaitingStream[]> =>
  db.any(sql.type(waitingRow)`
    WITH RECURSIVE ${waitingStreams}
    SELECT account_id AS "accountId", mode, kind, second, attempts
    FROM waiting
    ORDER BY second
  `);

const summaryRow = z.strictObject({ streams: z.int(), oldestSecond: safeInteger.nullable() });

/** Counts the streams with unsealed facts or an unfinished event, and returns the oldest second of them. */
export const summarizeWaitingStreams = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof summaryRow>>> =>
  db.one(sql.type(summaryRow)`
    WITH RECURSIVE ${waitingStreams}
    SELECT count(*)::integer AS streams, min(second) AS "oldestSecond"
    FROM waiting
  `);

/** The condition of the streams that follow one in the order of their keys; null: of all. */
const isAfter = (stream: Owner | null): FragmentSqlToken =>
  stream === null
    ? sql.fragment`true`
    : sql.fragment`(account_id, mode, kind) > (${stream.accountId}::uuid, ${stream.mode}, ${stream.kind})`;

const readyRow = z.strictObject({ ...ownerColumns, second: safeInteger });

/** A stream with usage that may be sealed, and the oldest second of it. */
export type ReadyStream = Readonly<z.output<typeof readyRow>>;

/**
 * Lists the streams with facts that may be sealed and no unfinished event, in the order of their keys. The query steps
 * through the index from stream to stream and stops at the limit, so a page costs the same however many streams wait.
 * @param after the last stream of the page before; null for the first page
 * @param lastSecond the last second that may be sealed
 */
export const listReadyStreams = (
  db: CommonQueryMethods,
  {
    after,
    lastSecond,
    limit,
  }: {
    readonly after: Owner | null;
    readonly lastSecond: number;
    readonly limit: number;
  },
): Promise<readonly ReadyStream[]> =>
  db.any(sql.type(readyRow)`
    WITH RECURSIVE ${unsealedStreams(isAfter(after))}
    SELECT account_id AS "accountId", mode, kind, second
    FROM unsealed
    WHERE second <= ${lastSecond}
      AND NOT EXISTS (
        SELECT
        FROM meter_event
        WHERE account_id = unsealed.account_id
          AND mode = unsealed.mode
          AND kind = unsealed.kind
          AND state IN (${UNFINISHED})
        -- Keeps this a look-up for each stream, so that the scan can stop at the limit.
        OFFSET 0
      )
    LIMIT ${limit}
  `);

const ownerRow = z.strictObject(ownerColumns);

/**
 * Lists the streams whose unfinished event a shard's sender continues with, in the order of their keys.
 * @param after the last stream of the page before; null for the first page
 */
export const listResumableStreams = (
  db: CommonQueryMethods,
  {
    after,
    lease,
    limit,
  }: { readonly after: Owner | null; readonly lease: Lease; readonly limit: number },
): Promise<readonly Owner[]> =>
  db.any(sql.type(ownerRow)`
    SELECT account_id AS "accountId", mode, kind
    FROM meter_event
    WHERE state IN (${UNFINISHED})
      AND ${isAfter(after)}
      AND ${isResumable(lease)}
    ORDER BY account_id, mode, kind
    LIMIT ${limit}
  `);
