import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { countDeleted, deletedRow, startingAt } from "../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { nothing, sql, timestamp } from "../../db/sql.ts";

/** An event to insert. A webhook has other data: `webhookData`. */
export type NewEvent = AccountMode &
  StoredEventContent & { readonly id: string; readonly webhookData: object };

/**
 * Defines queries that insert events of any owners, and their deliveries to the endpoints that want them, as parts of a
 * statement that makes the changes which they describe.
 * @param condition whether the change is made that the event describes, whose data is `value -> 2`
 */
export const eventInserts = (
  events: readonly NewEvent[],
  createdAt: Date | string,
  condition: FragmentSqlToken,
): FragmentSqlToken => {
  const time = timestamp(createdAt);
  const input = JSON.stringify(
    events.map(({ id, accountId, mode, type, data, webhookData }) => [
      id,
      type,
      data,
      webhookData,
      accountId,
      mode,
    ]),
  );
  return sql.fragment`
    given_event AS (
      SELECT
        (value ->> 0)::uuid AS id, value ->> 1 AS type, value -> 2 AS data, value -> 3 AS webhook_data,
        (value ->> 4)::uuid AS account_id, value ->> 5 AS mode
      FROM json_array_elements(${input}::json) AS value
      WHERE ${condition}
    ),
    inserted_event AS (
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      SELECT id, account_id, mode, type, ${time}, data
      FROM given_event
    ),
    inserted_delivery AS (
      INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
      SELECT webhook_endpoint.id, given_event.id, given_event.type, ${time}, webhook_data, ${time}, ${time}
      FROM given_event
      JOIN webhook_endpoint
        ON webhook_endpoint.account_id = given_event.account_id
        AND webhook_endpoint.mode = given_event.mode
        AND (webhook_endpoint.types IS NULL OR given_event.type = ANY(webhook_endpoint.types))
      WHERE webhook_endpoint.deleted_at IS NULL AND webhook_endpoint.disabled_at IS NULL
    )
  `;
};

/**
 * Inserts events of any owners, and their deliveries to the endpoints that want them. The caller's transaction must also make
 * the changes that they describe.
 */
export const insertEvents = async (
  transaction: CommonQueryMethods,
  events: readonly NewEvent[],
  createdAt: Date,
): Promise<void> => {
  await transaction.query(sql.prepared("insert_events", nothing)`
    WITH ${eventInserts(events, createdAt, sql.fragment`true`)}
    SELECT
  `);
};

/**
 * Deletes events that are older than a time and of transactions before a given one, oldest first. The newest of them of
 * each account, mode and type stays, because it shows whether a reader has missed any.
 * @param from where an earlier batch ended, so that this one does not read what stays again; null for the first
 * @returns how many were deleted, and the time of the last one
 */
export const deleteEventsBefore = (
  db: CommonQueryMethods,
  {
    from,
    time,
    transactionId,
  }: { readonly from: Date | null; readonly time: Date; readonly transactionId: bigint },
  limit: number,
): Promise<Deleted> => {
  const boundary = sql.fragment`${String(transactionId)}::xid8`;
  return db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM event
      WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM event AS old
        WHERE old.created_at >= ${startingAt(from)}
          AND old.created_at <= ${timestamp(time)}
          AND old.transaction_id < ${boundary}
          AND EXISTS (
            SELECT
            FROM event AS newer
            WHERE newer.account_id = old.account_id
              AND newer.mode = old.mode
              AND newer.type = old.type
              AND (newer.transaction_id, newer.id) > (old.transaction_id, old.id)
              AND newer.transaction_id < ${boundary}
            -- A search for each event. A join would read the whole table for each batch.
            OFFSET 0
          )
        ORDER BY old.created_at
        LIMIT ${limit}
      ))
      RETURNING created_at AS time
    )
    ${countDeleted}
  `);
};

/** Records which transactions have ended, once a day. */
export const insertEventDay = async (db: CommonQueryMethods, now: Date): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO event_day (day, recorded_at, transaction_id)
    VALUES (
      (${timestamp(now)} AT TIME ZONE 'UTC')::date,
      ${timestamp(now)},
      pg_snapshot_xmin(pg_current_snapshot())
    )
    ON CONFLICT (day) DO NOTHING
  `);
};

/** A transaction that none of those after a time is before; 0 if nothing was recorded by that time. */
export const eventBoundary = (time: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  coalesce(
    (SELECT transaction_id FROM event_day WHERE recorded_at <= ${time} ORDER BY recorded_at DESC LIMIT 1),
    '0'::xid8
  )
`;

const transactionIdRow = z.strictObject({ transactionId: z.string() });

/** Returns the boundary of events at a time. */
export const findEventBoundary = async (db: CommonQueryMethods, time: Date): Promise<bigint> =>
  BigInt(
    await db.oneFirst(sql.type(transactionIdRow)`
      SELECT ${eventBoundary(timestamp(time))}::text AS "transactionId"
    `),
  );

/** Days are recorded each night, unless no worker runs. */
const MAXIMUM_AGE_DAYS = 3;

/**
 * Returns a transaction that none of those after a time is before, as `findEventBoundary` does; 0 if no day before the time
 * was recorded recently. Events that were copied from another server have the transaction 0, and their earlier days are
 * gone.
 */
export const findRecentEventBoundary = async (
  db: CommonQueryMethods,
  time: Date,
): Promise<bigint> => {
  const found = await db.maybeOneFirst(sql.type(transactionIdRow)`
    SELECT transaction_id::text AS "transactionId"
    FROM event_day
    WHERE recorded_at <= ${timestamp(time)}
      AND recorded_at > ${timestamp(time)} - make_interval(days => ${MAXIMUM_AGE_DAYS})
      -- Days of another server, whose records were copied and not renumbered.
      AND transaction_id < pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY recorded_at DESC
    LIMIT 1
  `);
  return BigInt(found ?? 0);
};

/** Deletes the days that a later one before the time replaces. */
export const deleteEventDays = async (db: CommonQueryMethods, time: Date): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM event_day
    WHERE recorded_at < (
      SELECT max(later.recorded_at) FROM event_day AS later WHERE later.recorded_at <= ${timestamp(time)}
    )
  `);
};
