import type { CommonQueryMethods } from "slonik";
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

const transactionIdRow = z.strictObject({ transactionId: z.string() });

/** Returns a transaction that none of those after a time is before; 0 if nothing was recorded by that time. */
export const findEventBoundary = async (db: CommonQueryMethods, time: Date): Promise<bigint> => {
  const found = await db.maybeOneFirst(sql.type(transactionIdRow)`
    SELECT transaction_id::text AS "transactionId"
    FROM event_day
    WHERE recorded_at <= ${timestamp(time)}
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
