import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { ownerColumns } from "../../records/columns.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import { UNFINISHED } from "../meterEvents.sql.ts";

const streamRow = z.strictObject({ ...ownerColumns, second: safeInteger, attempts: z.int() });

/** A stream with unreported usage, the oldest second of it, and the attempts of its unfinished event. */
export type WaitingStream = Readonly<z.output<typeof streamRow>>;

/**
 * Defines the query `unsealed`: each stream with facts that are not sealed, and the oldest one's second. It steps through
 * the index from stream to stream, so its cost grows with the number of streams, not with their facts.
 * @param start a condition that only the first stream has to meet
 */
export const unsealedStreams = (start: FragmentSqlToken): FragmentSqlToken => sql.fragment`
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

/** Lists every stream with unsealed facts or an unfinished event. */
export const listWaitingStreams = (db: CommonQueryMethods): Promise<readonly WaitingStream[]> =>
  db.any(sql.type(streamRow)`
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
