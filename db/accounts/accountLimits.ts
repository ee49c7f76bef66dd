import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { LimitOverrides, NewLimits } from "../../domain/accounts/limits.ts";
import { modeColumn } from "../columns.ts";
import { sql } from "../sql.ts";

const override = z.int().nullable();

export const limitOverrides = z.strictObject({
  requestsPerSecond: override,
  concurrentRequests: override,
  openLists: override,
  countPerRequest: override,
  countPerDay: override,
  testRecords: override,
}) satisfies z.ZodType<LimitOverrides>;

/** The row of a left join of `account_limit` as one value; null if there is none. JSON has its numbers as integers. */
export const limitsAsJson = sql.fragment`
  CASE WHEN account_limit.account_id IS NOT NULL THEN json_build_object(
    'requestsPerSecond', account_limit.requests_per_second,
    'concurrentRequests', account_limit.concurrent_requests,
    'openLists', account_limit.open_lists,
    'countPerRequest', account_limit.count_per_request,
    'countPerDay', account_limit.count_per_day,
    'testRecords', account_limit.test_records
  ) END
`;

const limitsRow = z.strictObject({ mode: modeColumn, limits: limitOverrides });

/** Lists what operators have set for an account; modes without a row have the defaults. */
export const listAccountLimits = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<readonly { readonly mode: Mode; readonly limits: LimitOverrides }[]> =>
  db.any(sql.type(limitsRow)`
    SELECT account_limit.mode, ${limitsAsJson} AS limits
    FROM account_limit
    WHERE account_limit.account_id = ${accountId}
    ORDER BY account_limit.mode
  `);

const COLUMNS = {
  requestsPerSecond: "requests_per_second",
  concurrentRequests: "concurrent_requests",
  openLists: "open_lists",
  countPerRequest: "count_per_request",
  countPerDay: "count_per_day",
  testRecords: "test_records",
} as const satisfies Record<keyof LimitOverrides, string>;

/** Sets limits of an account; null restores the default, and absent ones stay. */
export const updateAccountLimits = async (
  db: CommonQueryMethods,
  accountId: string,
  { mode, changes }: NewLimits,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO account_limit (account_id, mode)
    VALUES (${accountId}, ${mode})
    ON CONFLICT (account_id, mode) DO NOTHING
  `);
  for (const [name, column] of Object.entries(COLUMNS)) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of COLUMNS are those of the limits.
    const value = changes[name as keyof typeof COLUMNS];
    if (value !== undefined) {
      await db.query(sql.typeAlias("void")`
        UPDATE account_limit
        SET ${sql.identifier([column])} = ${value}
        WHERE account_id = ${accountId} AND mode = ${mode}
      `);
    }
  }
};
