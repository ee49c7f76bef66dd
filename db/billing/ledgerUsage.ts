import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Span, UsageStream } from "../../domain/billing/usage.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

const recordedRow = z.strictObject({ identifier: z.string(), quantity: safeInteger });

export type LedgerUsage = UsageStream & {
  readonly identifier: string;
  readonly second: number;
  readonly quantity: number;
};

/**
 * Records usage under its identifiers; a repeated identifier changes nothing.
 * @returns the quantities that are recorded under the identifiers
 */
export const recordLedgerUsage = async (
  db: CommonQueryMethods,
  usage: readonly LedgerUsage[],
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.any(sql.type(recordedRow)`
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    SELECT identifier, account_id, mode, meter, second, quantity, now()
    FROM ${sql.unnest(
      // A statement must not insert an identifier twice.
      [...new Map(usage.map((each) => [each.identifier, each])).values()].map(
        ({ identifier, accountId, mode, meter, second, quantity }) => [
          identifier,
          accountId,
          mode,
          meter,
          second,
          quantity,
        ],
      ),
      ["text", "uuid", "text", "text", "int8", "int8"],
    )} AS usage (identifier, account_id, mode, meter, second, quantity)
    -- In this order, so that two statements with the same identifiers do not wait for each other.
    ORDER BY identifier
    -- Changes nothing, but returns the existing row.
    ON CONFLICT (identifier) DO UPDATE SET identifier = excluded.identifier
    RETURNING identifier, quantity
  `);
  return new Map(rows.map(({ identifier, quantity }) => [identifier, quantity]));
};

/** Returns the units recorded in a half-open span of unix seconds. */
export const sumLedgerUsage = async (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
  span: Span,
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
  db.exists(sql.typeAlias("void")`
    SELECT FROM ledger_usage WHERE mode = 'live'
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
