import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { LimitName, LimitOverrides, NewLimits } from "../../domain/accounts/limits.ts";
import { LIMITS } from "../../domain/accounts/limits.ts";
import { modeColumn } from "../columns.ts";
import { assignmentsOf, sql } from "../sql.ts";

const COLUMNS = {
  requestsPerSecond: "requests_per_second",
  concurrentRequests: "concurrent_requests",
  openLists: "open_lists",
  countPerRequest: "count_per_request",
  countPerDay: "count_per_day",
  testRecords: "test_records",
} as const satisfies Record<LimitName, string>;

export const limitOverrides = z.record(z.enum(LIMITS), z.int().nullable());

const namedColumns = LIMITS.map(
  (name) =>
    sql.fragment`${sql.literalValue(name)}, ${sql.identifier(["account_limit", COLUMNS[name]])}`,
);

/** The row of a left join of `account_limit` as one value; null if there is none. JSON has its numbers as integers. */
export const limitsAsJson = sql.fragment`
  CASE WHEN account_limit.account_id IS NOT NULL THEN json_build_object(
    ${sql.join(namedColumns, sql.fragment`, `)}
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
  const assignments = assignmentsOf(
    Object.fromEntries(LIMITS.map((name) => [COLUMNS[name], changes[name]])),
  );
  if (assignments !== null) {
    await db.query(sql.typeAlias("void")`
      UPDATE account_limit
      SET ${assignments}
      WHERE account_id = ${accountId} AND mode = ${mode}
    `);
  }
};
