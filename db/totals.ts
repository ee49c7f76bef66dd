import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner, Totals } from "../domain/registrations.ts";
import { monthOf } from "../domain/registrations.ts";
import { sql } from "./sql.ts";

const totalsRow = z.strictObject({ all: z.bigint(), month: z.bigint() });

/** The owner's totals as of the instant's month; 0 where nothing is on record. */
export const readTotals = async (
  db: CommonQueryMethods,
  owner: Owner,
  instant: Date,
): Promise<Totals> => {
  const { all, month } = await db.one(sql.type(totalsRow)`
    SELECT
      coalesce(max(total) FILTER (WHERE period = 'all'), 0)::bigint AS "all",
      coalesce(max(total) FILTER (WHERE period <> 'all'), 0)::bigint AS month
    FROM impact_total
    WHERE account_id = ${owner.accountId}
      AND mode = ${owner.mode}
      AND kind = ${owner.kind}
      AND period IN ('all', ${monthOf(instant)})
  `);
  return { all: Number(all), month: Number(month) };
};

/** Takes refunded units out of the all-time total and the month in which they were registered. */
export const subtractFromTotals = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  registeredAt: Date,
  count: number,
): Promise<void> => {
  // In the order in which a batch of registrations locks them: 'all' comes after every month.
  for (const period of [monthOf(registeredAt), "all"]) {
    await transaction.query(sql.typeAlias("void")`
      UPDATE impact_total
      SET total = total - ${count}
      WHERE account_id = ${owner.accountId}
        AND mode = ${owner.mode}
        AND kind = ${owner.kind}
        AND period = ${period}
    `);
  }
};
