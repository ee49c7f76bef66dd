import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { CallRate } from "./callRate.rules.ts";
import { nothing, sql } from "../../../db/sql.ts";

const callRateRow = z.strictObject({
  callsPerSecond: z.number(),
  maximumCallsPerSecond: z.number(),
  secondsSinceChange: z.number(),
  reservedSeconds: z.number(),
});

const columns = sql.fragment`
  calls_per_second AS "callsPerSecond",
  maximum_calls_per_second AS "maximumCallsPerSecond",
  extract(epoch FROM clock_timestamp() - changed_at)::double precision AS "secondsSinceChange",
  extract(epoch FROM reserved_until - clock_timestamp())::double precision AS "reservedSeconds"
`;

export const readCallRate = (db: CommonQueryMethods): Promise<CallRate> =>
  db.one(sql.prepared("read_call_rate", callRateRow)`SELECT ${columns} FROM call_rate`);

/** Locks the rate until the transaction ends, and returns it as it is then. */
export const lockCallRate = async (
  transaction: DatabaseTransactionConnection,
): Promise<CallRate> => {
  // The times are read after the lock was waited for.
  await transaction.query(
    sql.prepared("lock_call_rate", nothing)`SELECT FROM call_rate FOR UPDATE`,
  );
  return readCallRate(transaction);
};

/** Records that the time until then, in seconds from now, is reserved. */
export const recordReservation = async (
  transaction: DatabaseTransactionConnection,
  reservedSeconds: number,
): Promise<void> => {
  await transaction.query(sql.prepared("record_reservation", nothing)`
    UPDATE call_rate
    SET reserved_until = clock_timestamp() + ${reservedSeconds}::double precision * interval '1 second'
  `);
};

export const recordCallRate = async (
  transaction: DatabaseTransactionConnection,
  callsPerSecond: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE call_rate
    SET calls_per_second = ${callsPerSecond}, changed_at = clock_timestamp()
  `);
};

/** Records the rate that all workers' calls may rise to, unless it is recorded already. */
export const recordMaximumCallRate = async (
  db: CommonQueryMethods,
  maximumCallsPerSecond: number,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE call_rate
    SET maximum_calls_per_second = ${maximumCallsPerSecond}
    WHERE maximum_calls_per_second <> ${maximumCallsPerSecond}
  `);
};
