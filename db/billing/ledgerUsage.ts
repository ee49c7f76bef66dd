import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { nothing, sql } from "../sql.ts";

/**
 * Records usage under its identifier; a repeated identifier changes nothing.
 * @returns whether the identifier was new
 */
export const insertLedgerUsage = async (
  db: CommonQueryMethods,
  usage: UsageStream & {
    readonly identifier: string;
    readonly second: number;
    readonly quantity: number;
  },
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.prepared("insert_ledger_usage", nothing)`
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    VALUES (
      ${usage.identifier}, ${usage.accountId}, ${usage.mode}, ${usage.meter}, ${usage.second}, ${usage.quantity}, now()
    )
    ON CONFLICT (identifier) DO NOTHING
  `);
  return rowCount === 1;
};

/** Returns the units recorded in a half-open span of unix seconds. */
export const sumLedgerUsage = async (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
  span: { readonly start: number; readonly end: number },
): Promise<number> => {
  const quantity = await db.oneFirst(sql.type(z.strictObject({ quantity: z.bigint() }))`
    SELECT coalesce(sum(quantity), 0)::bigint AS quantity
    FROM ledger_usage
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND meter = ${meter}
      AND second >= ${span.start}
      AND second < ${span.end}
  `);
  return Number(quantity);
};
