import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { Span } from "./usage.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { ofStream } from "./streams.sql.ts";

const recordedRow = z.strictObject({ identifier: z.string(), quantity: safeInteger });

export type LedgerUsage = Owner & {
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
    INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
    SELECT identifier, account_id, mode, kind, second, quantity, now()
    FROM ${sql.unnest(
      // A statement must not insert an identifier twice.
      [...new Map(usage.map((each) => [each.identifier, each])).values()].map(
        ({ identifier, accountId, mode, kind, second, quantity }) => [
          identifier,
          accountId,
          mode,
          kind,
          second,
          quantity,
        ],
      ),
      ["text", "uuid", "text", "text", "int8", "int8"],
    )} AS usage (identifier, account_id, mode, kind, second, quantity)
    -- In this order, so that two statements with the same identifiers do not wait for each other.
    ORDER BY identifier
    -- Changes nothing, but returns the existing row.
    ON CONFLICT (identifier) DO UPDATE SET identifier = excluded.identifier
    RETURNING identifier, quantity
  `);
  return new Map(rows.map(({ identifier, quantity }) => [identifier, quantity]));
};

const entriesOf = (stream: Owner, { start, end }: Span): FragmentSqlToken =>
  sql.fragment`
    ledger_usage
    WHERE ${ofStream("ledger_usage", stream)} AND second >= ${start} AND second < ${end}
  `;

const quantityColumn = z.bigint().transform(Number);

const quantityRow = z.strictObject({ quantity: quantityColumn });

/** Returns the units recorded in a half-open span of unix seconds. */
export const sumLedgerUsage = (
  db: CommonQueryMethods,
  stream: Owner,
  span: Span,
): Promise<number> =>
  db.oneFirst(sql.type(quantityRow)`
    SELECT coalesce(sum(quantity), 0)::bigint AS quantity
    FROM ${entriesOf(stream, span)}
  `);

const firstSumRow = z.strictObject({ quantity: quantityColumn, end: safeInteger });

/**
 * Returns the units of the first `limit` entries of a span and of the rest of their last second, and the second after it;
 * with fewer entries, those of the whole span and its end.
 */
export const sumFirstLedgerUsage = (
  db: CommonQueryMethods,
  stream: Owner,
  span: Span,
  limit: number,
): Promise<Readonly<z.output<typeof firstSumRow>>> =>
  db.one(sql.type(firstSumRow)`
    SELECT
      coalesce(sum(quantity), 0)::bigint AS quantity,
      CASE WHEN count(*) < ${limit} THEN ${span.end} ELSE max(second) + 1 END AS "end"
    FROM (
      SELECT second, quantity
      FROM ${entriesOf(stream, span)}
      ORDER BY second
      FETCH FIRST ${limit} ROWS WITH TIES
    ) AS entry
  `);

/** Returns whether the ledger has ever recorded live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM ledger_usage WHERE mode = 'live'
  `);
