import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../domain/usage.ts";
import { sql } from "./sql.ts";

/**
 * Books usage under its identifier, once however often it is given.
 * @returns whether it was new
 */
export const insertLedgerUsage = async (
  db: CommonQueryMethods,
  usage: UsageStream & {
    readonly identifier: string;
    readonly second: number;
    readonly quantity: number;
  },
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    VALUES (
      ${usage.identifier}, ${usage.accountId}, ${usage.mode}, ${usage.meter}, ${usage.second}, ${usage.quantity}, now()
    )
    ON CONFLICT (identifier) DO NOTHING
  `);
  return rowCount === 1;
};

/** The booked units by minute (unix seconds of its start) in a half-open span of seconds. */
export const sumLedgerUsageByMinute = async (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
  span: { readonly start: number; readonly end: number },
): Promise<ReadonlyMap<number, number>> => {
  const rows = await db.any(sql.type(z.strictObject({ minute: z.bigint(), quantity: z.bigint() }))`
    SELECT second - second % 60 AS minute, sum(quantity)::bigint AS quantity
    FROM ledger_usage
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND meter = ${meter}
      AND second >= ${span.start}
      AND second < ${span.end}
    GROUP BY 1
  `);
  return new Map(rows.map(({ minute, quantity }) => [Number(minute), Number(quantity)]));
};
