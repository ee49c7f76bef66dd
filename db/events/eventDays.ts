import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../sql.ts";

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

/** Deletes the days that a later one before the time replaces. */
export const deleteEventDays = async (db: CommonQueryMethods, time: Date): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM event_day
    WHERE recorded_at < (
      SELECT max(later.recorded_at) FROM event_day AS later WHERE later.recorded_at <= ${timestamp(time)}
    )
  `);
};
