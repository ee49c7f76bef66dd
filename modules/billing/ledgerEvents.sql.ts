import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import {
  meterEventColumns,
  meterEventRow,
  noteBeforeError,
  UNFINISHED,
} from "./meterEvents.sql.ts";
import type { StoredMeterEvent } from "./meterEvents.sql.ts";
import { ofStream } from "./streams.sql.ts";

/** Live events of a stream in the built-in ledger, from a unix second on. */
type LedgerEvents = Pick<Owner, "accountId" | "kind"> & { readonly fromSecond: number };

const isAmong = ({ fromSecond, ...stream }: LedgerEvents): FragmentSqlToken => sql.fragment`
  ${ofStream("meter_event", { ...stream, mode: "live" })} AND second >= ${fromSecond} AND processor = 'ledger'
`;

const countsRow = z.strictObject({
  /** The delivered ones. */
  events: z.int(),
  /** Their units. */
  quantity: z.bigint().transform(Number),
  /** Those that are not settled yet. */
  unfinished: z.int(),
  /** The delivered ones from before a time. */
  ended: z.int(),
});

export const countLedgerEvents = (
  db: CommonQueryMethods,
  events: LedgerEvents,
  endedBefore: Date | null,
): Promise<Readonly<z.output<typeof countsRow>>> =>
  db.one(sql.type(countsRow)`
    SELECT
      count(*) FILTER (WHERE state = 'delivered')::integer AS events,
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS quantity,
      count(*) FILTER (WHERE state IN (${UNFINISHED}))::integer AS unfinished,
      count(*) FILTER (
        WHERE state = 'delivered' AND to_timestamp(second) < ${timestamp(endedBefore)}
      )::integer AS ended
    FROM meter_event
    WHERE ${isAmong(events)}
  `);

/** Lists those that a comparison has blocked. */
export const listBlockedLedgerEvents = (
  db: CommonQueryMethods,
  events: LedgerEvents,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE ${isAmong(events)} AND state = 'blocked'
    ORDER BY id
  `);

/**
 * Defines the query `rest`: the facts in the seconds of the events `superseded` that none of these events bills. Meter events
 * that only offset some of them become superseded, too.
 */
const otherFactsOfSeconds = (
  events: LedgerEvents,
  note: string,
  revokedAt: Date,
): FragmentSqlToken => sql.fragment`
  -- The parts of usage whose other units were sealed again. They are not in the ledger any more.
  part AS MATERIALIZED (
    SELECT DISTINCT second
    FROM superseded
    WHERE id NOT IN (SELECT event_id FROM sealed)
  ),
  -- The other units of these seconds, offset against refunds. Such an event names the processor of its units for later refunds.
  void AS (
    UPDATE meter_event
    SET state = 'superseded', last_error = ${noteBeforeError(note)}, settled_at = ${timestamp(revokedAt)}
    WHERE id = ANY(ARRAY(
      SELECT event.id
      FROM (SELECT DISTINCT second FROM superseded) AS moved
      CROSS JOIN LATERAL (
        SELECT id
        FROM meter_event
        WHERE ${isAmong(events)} AND second = moved.second AND state = 'void'
        OFFSET 0
      ) AS event
    ))
    RETURNING id
  ),
  rest AS (
    SELECT fact.id
    FROM part
    CROSS JOIN LATERAL (
      SELECT id
      FROM usage_fact
      WHERE ${ofStream("usage_fact", { ...events, mode: "live" })}
        AND meter_event_id IS NULL
        AND second = part.second
      OFFSET 0
    ) AS fact
    UNION ALL
    SELECT fact.id
    FROM void
    CROSS JOIN LATERAL (
      SELECT id FROM usage_fact WHERE usage_fact.meter_event_id = void.id OFFSET 0
    ) AS fact
  )
`;

const revokedRow = countsRow.pick({ events: true, quantity: true }).extend({
  /** The second of the last delivered event, from which the next call continues; null if there was none. */
  lastSecond: safeInteger.nullable(),
});

/**
 * Reverses the usage of the first delivered events in the ledger, under separate identifiers, and makes the facts of these
 * events available for another sealing. Must run under the stream's lock.
 */
export const revokeLedgerEvents = (
  transaction: DatabaseTransactionConnection,
  events: LedgerEvents,
  {
    note,
    revokedAt,
    limit,
    withUnsettled,
  }: {
    readonly note: string;
    readonly revokedAt: Date;
    readonly limit: number;
    /** Also revokes unfinished events, which must have no attempt in progress, and blocked ones, which the caller leaves. */
    readonly withUnsettled: boolean;
  },
): Promise<Readonly<z.output<typeof revokedRow>>> =>
  transaction.one(sql.type(revokedRow)`
    WITH superseded AS (
      UPDATE meter_event
      SET state = 'superseded', last_error = ${noteBeforeError(note)}, settled_at = ${timestamp(revokedAt)}
      WHERE id = ANY(ARRAY(
        SELECT id
        FROM meter_event
        WHERE ${isAmong(events)}
          AND state IN (${withUnsettled ? sql.fragment`${UNFINISHED}, 'blocked', 'delivered'` : sql.fragment`'delivered'`})
        ORDER BY second, sequence
        LIMIT ${limit}
      ))
      RETURNING id, identifier, quantity, second
    ),
    revoked AS (
      INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
      SELECT recorded.identifier || ':revoked', account_id, mode, kind, recorded.second, -recorded.quantity, now()
      FROM superseded
      CROSS JOIN LATERAL (
        SELECT *
        FROM ledger_usage
        WHERE ledger_usage.identifier = superseded.identifier
        -- Keeps this a look-up of each, whatever the statistics say.
        OFFSET 0
      ) AS recorded
      ON CONFLICT (identifier) DO NOTHING
    ),
    sealed AS MATERIALIZED (
      SELECT superseded.id AS event_id, fact.id
      FROM superseded
      CROSS JOIN LATERAL (
        SELECT id FROM usage_fact WHERE usage_fact.meter_event_id = superseded.id OFFSET 0
      ) AS fact
    ),
    ${otherFactsOfSeconds(events, note, revokedAt)},
    released AS (
      UPDATE usage_fact
      -- A part of them that counted as reported is revoked here, or was by an earlier move.
      SET meter_event_id = NULL, already_reported = NULL
      WHERE id = ANY(ARRAY(SELECT id FROM sealed UNION ALL SELECT id FROM rest))
    )
    SELECT
      count(*)::integer AS events,
      coalesce(sum(quantity), 0)::bigint AS quantity,
      max(second) AS "lastSecond"
    FROM superseded
  `);
