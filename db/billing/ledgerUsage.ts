import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { sql } from "../sql.ts";

const quantityRow = z.strictObject({ quantity: z.bigint().transform(Number) });

/**
 * Records usage under its identifier; a repeated identifier changes nothing.
 * @returns the quantity that is recorded under the identifier
 */
export const recordLedgerUsage = (
  db: CommonQueryMethods,
  usage: UsageStream & {
    readonly identifier: string;
    readonly second: number;
    readonly quantity: number;
  },
): Promise<number> =>
  db.oneFirst(sql.prepared("record_ledger_usage", quantityRow)`
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    VALUES (
      ${usage.identifier}, ${usage.accountId}, ${usage.mode}, ${usage.meter}, ${usage.second}, ${usage.quantity}, now()
    )
    -- Changes nothing, but returns the existing row.
    ON CONFLICT (identifier) DO UPDATE SET identifier = excluded.identifier
    RETURNING quantity
  `);

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

/** Returns whether the ledger has ever recorded live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.oneFirst(sql.type(z.strictObject({ found: z.boolean() }))`
    SELECT EXISTS (SELECT FROM ledger_usage WHERE mode = 'live') AS found
  `);

/** Reverses the usage of a delivered meter event, under a separate identifier. */
export const revokeLedgerUsage = async (
  db: CommonQueryMethods,
  identifier: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    SELECT identifier || ':revoked', account_id, mode, meter, second, -quantity, now()
    FROM ledger_usage
    WHERE identifier = ${identifier}
    ON CONFLICT (identifier) DO NOTHING
  `);
};
