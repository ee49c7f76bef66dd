import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../db/sql.ts";

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
