import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { LimitUse, NewLimit } from "./limits.rules.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { columnsOf, countRow, literals, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";

const limitRow = z.strictObject({ mode: modeColumn, countPerDay: safeInteger });

/** Lists what operators have set for an account; modes without a row have no limit. */
export const listAccountLimits = (db: CommonQueryMethods, accountId: string) =>
  db.any(sql.type(limitRow)`
    SELECT ${columnsOf("account_limit", limitRow)}
    FROM account_limit
    WHERE account_id = ${accountId}
    ORDER BY mode
  `);

export const setAccountLimit = (
  db: CommonQueryMethods,
  accountId: string,
  { mode, countPerDay }: NewLimit,
) =>
  db.query(
    countPerDay === null
      ? sql.typeAlias("void")`
          DELETE FROM account_limit WHERE account_id = ${accountId} AND mode = ${mode}
        `
      : sql.typeAlias("void")`
          INSERT INTO account_limit (account_id, mode, count_per_day)
          VALUES (${accountId}, ${mode}, ${countPerDay})
          ON CONFLICT (account_id, mode) DO UPDATE
          SET count_per_day = excluded.count_per_day, changed_at = now(), counted_day = NULL
        `,
  );

export type LockedLimit = AccountMode & LimitUse;

const lockedRow = limitRow.extend({ accountId: z.uuid(), countedUnits: safeInteger.nullable() });

const startOfDay = (time: Date): Date => new Date(Math.floor(time.getTime() / DAY_MS) * DAY_MS);

/** Counts the units that an account registered on the day of a time, UTC. Refunded ones count, imported ones do not. */
const countUnitsOfDay = (db: CommonQueryMethods, { accountId, mode }: AccountMode, time: Date) => {
  const from = startOfDay(time);
  return db.oneFirst(sql.type(countRow)`
    SELECT least(coalesce(sum(count), 0), ${Number.MAX_SAFE_INTEGER})::bigint AS count
    FROM registration
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND kind IN (${literals(KINDS)})
      AND created_at >= ${timestamp(from)}
      AND created_at < ${timestamp(new Date(from.getTime() + DAY_MS))}
      AND NOT ${isImported(sql.fragment`id`)}
  `);
};

/**
 * Locks the limits of accounts until the transaction ends, and reads what they have used of them. Accounts without limits
 * are left out.
 */
export const lockAccountLimits = async (
  transaction: DatabaseTransactionConnection,
  accounts: readonly AccountMode[],
  now: Date,
) => {
  const rows = await transaction.any(sql.type(lockedRow)`
    SELECT
      ${columnsOf("account_limit", lockedRow.omit({ countedUnits: true }))},
      CASE
        WHEN counted_day = ${startOfDay(now).toISOString()}::date AND changed_at < now() - interval '1 minute'
        THEN counted_units
      END AS "countedUnits"
    FROM account_limit
    JOIN (${jsonRows({ accountId: "uuid", mode: "text" }, accounts)}) AS writing USING (account_id, mode)
    ORDER BY account_id, mode
    FOR UPDATE OF account_limit
  `);
  const locked: LockedLimit[] = [];
  for (const { countedUnits, ...limit } of rows) {
    // Counted under the lock, when what other processes have registered is committed.
    const countToday = countedUnits ?? (await countUnitsOfDay(transaction, limit, now));
    locked.push({ ...limit, countToday });
  }
  return locked;
};

export const updateCountedUnits = (
  transaction: DatabaseTransactionConnection,
  limits: readonly (AccountMode & Pick<LimitUse, "countToday">)[],
  now: Date,
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE account_limit
    SET counted_day = ${startOfDay(now).toISOString()}::date, counted_units = counted.count_today
    FROM (${jsonRows({ accountId: "uuid", mode: "text", countToday: "int8" }, limits)}) AS counted
    WHERE account_limit.account_id = counted.account_id
      AND account_limit.mode = counted.mode
  `);
