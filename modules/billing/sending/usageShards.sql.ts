import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../records/owner.rules.ts";
import { ownerColumns } from "../../records/columns.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import type { Lease } from "../../../db/leases.ts";
import { isResumable, UNFINISHED } from "../meterEvents.sql.ts";
import { unsealedStreams } from "./waitingStreams.sql.ts";

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

const streamRow = z.strictObject(ownerColumns);

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
  db.any(sql.type(streamRow)`
    SELECT account_id AS "accountId", mode, kind
    FROM meter_event
    WHERE state IN (${UNFINISHED})
      AND ${isAfter(after)}
      AND ${isResumable(lease)}
    ORDER BY account_id, mode, kind
    LIMIT ${limit}
  `);

const accountRow = z.strictObject({ accountId: ownerColumns.accountId });

const troubledRow = z.strictObject({ ...ownerColumns, second: safeInteger, attempts: z.int() });

/** A stream whose event has failed several times, with a sender of its own. */
export type TroubledStream = Readonly<z.output<typeof troubledRow>>;

/** The condition of an unfinished event that its stream's own sender sends. */
const hasOwnSender = sql.fragment`state IN (${UNFINISHED}) AND has_own_sender`;

/** Lists the streams with a sender of their own whose next attempt has not begun, the oldest usage first. */
export const listTroubledStreams = (db: CommonQueryMethods): Promise<readonly TroubledStream[]> =>
  db.any(sql.type(troubledRow)`
    SELECT account_id AS "accountId", mode, kind, second, attempts
    FROM meter_event
    WHERE ${hasOwnSender} AND leased_until IS NULL
    ORDER BY second
  `);

/** Lists the account of each stream with a sender of its own. */
export const listAccountsWithOwnSenders = (db: CommonQueryMethods): Promise<readonly string[]> =>
  db.anyFirst(sql.prepared("list_accounts_with_own_senders", accountRow)`
    SELECT account_id AS "accountId" FROM meter_event WHERE ${hasOwnSender}
  `);
