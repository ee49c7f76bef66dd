import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { modeColumn, safeInteger } from "../columns.ts";
import { sql, timestamp } from "../sql.ts";

/** Units that an account registered on a day in UTC, `YYYY-MM-DD`. */
export type DailyCount = AccountMode & { readonly day: string; readonly count: number };

const toRecords = (owners: readonly (AccountMode & { day: string; count?: number })[]): string =>
  JSON.stringify(
    owners.map(({ accountId, mode, day, count = 0 }) => ({
      account_id: accountId,
      mode,
      day,
      count,
    })),
  );

const dailyCountRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  day: z.string(),
  count: safeInteger,
});

/** Adds units to the counts of days and returns the new ones. Largest values stop at what JSON carries exactly. */
export const addToDailyCounts = (
  db: CommonQueryMethods,
  added: readonly DailyCount[],
): Promise<readonly DailyCount[]> =>
  db.any(sql.type(dailyCountRow)`
    INSERT INTO daily_count (account_id, mode, day, count)
    SELECT account_id, mode, day, count
    FROM json_to_recordset(${toRecords(added)}) AS added (account_id uuid, mode text, day date, count bigint)
    -- A failover may have lost an account, whose units would keep those of the others from being stored.
    CROSS JOIN LATERAL (SELECT FROM account WHERE id = added.account_id OFFSET 0) AS present
    ORDER BY account_id, mode, day
    ON CONFLICT (account_id, mode, day) DO UPDATE
    SET count = least(daily_count.count + excluded.count, ${Number.MAX_SAFE_INTEGER})
    RETURNING account_id AS "accountId", mode, to_char(day, 'YYYY-MM-DD') AS day, count
  `);

/** Returns the counts of days; days without registrations have none. */
export const listDailyCounts = (
  db: CommonQueryMethods,
  days: readonly Omit<DailyCount, "count">[],
): Promise<readonly DailyCount[]> =>
  db.any(sql.type(dailyCountRow)`
    SELECT
      wanted.account_id AS "accountId",
      wanted.mode,
      to_char(wanted.day, 'YYYY-MM-DD') AS day,
      counted.count
    FROM json_to_recordset(${toRecords(days)}) AS wanted (account_id uuid, mode text, day date)
    CROSS JOIN LATERAL (
      SELECT count
      FROM daily_count
      WHERE account_id = wanted.account_id AND mode = wanted.mode AND day = wanted.day
      -- Keeps this a look-up for each day.
      OFFSET 0
    ) AS counted
  `);

const usualDayRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  days: z.int(),
  meanCount: z.number(),
});

/** The days with registrations before a day: how many there are, and the mean of their counts. */
export type OwnersUsualDay = Readonly<z.output<typeof usualDayRow>>;

/** Reads what is usual for accounts from the four weeks before a day. */
export const listUsualDays = (
  db: CommonQueryMethods,
  owners: readonly AccountMode[],
  day: string,
): Promise<readonly OwnersUsualDay[]> =>
  db.any(sql.type(usualDayRow)`
    SELECT
      owner.account_id AS "accountId",
      owner.mode,
      count(*)::integer AS days,
      avg(daily_count.count)::double precision AS "meanCount"
    FROM json_to_recordset(${toRecords(owners.map((owner) => ({ ...owner, day })))})
      AS owner (account_id uuid, mode text)
    JOIN daily_count
      ON daily_count.account_id = owner.account_id
      AND daily_count.mode = owner.mode
      AND daily_count.day >= ${day}::date - 28
      AND daily_count.day < ${day}::date
    GROUP BY owner.account_id, owner.mode
  `);

/** Marks a day as reported to operators; returns false if it was before. */
export const markDayReported = async (
  db: CommonQueryMethods,
  { accountId, mode, day }: Omit<DailyCount, "count">,
  reportedAt: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE daily_count
    SET reported_at = ${timestamp(reportedAt)}
    WHERE account_id = ${accountId} AND mode = ${mode} AND day = ${day}::date AND reported_at IS NULL
  `);
  return rowCount > 0;
};

/** Deletes the counts of the days before a time, and returns their number. */
export const deleteDailyCounts = async (db: CommonQueryMethods, before: Date): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM daily_count WHERE day < ${before.toISOString().slice(0, 10)}::date
  `);
  return rowCount;
};
