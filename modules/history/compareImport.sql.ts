import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";

const kindRow = z.strictObject({
  kind: z.enum(IMPORT_KINDS),
  records: safeInteger,
  quantity: z.string(),
  refunded: z.string(),
});

/** Imported records of a kind: units of registrations, cents of donations. The sums are decimal digits: they may exceed 2^53. */
type ImportedSums = Readonly<z.output<typeof kindRow>>;

/** Sums the imported records of an owner by their kinds. */
export const sumImported = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
): Promise<readonly ImportedSums[]> =>
  db.any(sql.type(kindRow)`
    SELECT kind, count(*) AS records, sum(count)::text AS quantity, sum(refunded_count)::text AS refunded
    FROM registration
    WHERE account_id = ${accountId} AND mode = ${mode} AND ${isImported(sql.fragment`id`)}
    GROUP BY kind
    UNION ALL
    SELECT
      'donation', count(*), sum(amount_cents)::text, coalesce(sum(amount_cents) FILTER (WHERE refunded), 0)::text
    FROM donation
    WHERE account_id = ${accountId} AND mode = ${mode} AND ${isImported(sql.fragment`id`)}
    HAVING count(*) > 0
    ORDER BY 1
  `);

const counterRow = z.strictObject({
  counter: z.string(),
  period: z.string(),
  counted: z.string(),
  recorded: z.string(),
});

/** A total that the API returns and the sum of the records that it should be. */
export type CounterDifference = Readonly<z.output<typeof counterRow>>;

/** Lists the totals of an owner that differ from its records, imported or not, in one snapshot. */
export const listCounterDifferences = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
): Promise<readonly CounterDifference[]> =>
  db.any(sql.type(counterRow)`
    -- Months first, and texts for them alone: an account may have tens of millions of records.
    WITH monthly AS (
      SELECT
        kind AS counter,
        date_trunc('month', created_at AT TIME ZONE 'UTC') AS month,
        sum(count - refunded_count) AS quantity
      FROM registration
      WHERE account_id = ${accountId} AND mode = ${mode}
      GROUP BY 1, 2
    ),
    recorded AS (
      SELECT counter, coalesce(to_char(month, 'YYYY-MM'), 'all') AS period, sum(quantity) AS quantity
      FROM monthly
      GROUP BY GROUPING SETS ((counter, month), (counter))
      UNION ALL
      SELECT sums.counter, 'all', sums.quantity
      FROM (
        SELECT count(*) AS count, sum(amount_cents) AS amount_cents
        FROM donation
        WHERE account_id = ${accountId} AND mode = ${mode} AND NOT refunded
      ) AS donated
      CROSS JOIN LATERAL (VALUES ('donations', count), ('donation cents', amount_cents)) AS sums (counter, quantity)
    ),
    counted AS (
      SELECT kind AS counter, period, total AS quantity
      FROM impact_total
      WHERE account_id = ${accountId} AND mode = ${mode}
      UNION ALL
      SELECT sums.counter, 'all', sums.quantity
      FROM donor
      CROSS JOIN LATERAL (VALUES ('donations', count), ('donation cents', amount_cents)) AS sums (counter, quantity)
      WHERE account_id = ${accountId} AND mode = ${mode}
    )
    SELECT
      counter,
      period,
      coalesce(counted.quantity, 0)::text AS counted,
      coalesce(recorded.quantity, 0)::text AS recorded
    FROM counted
    FULL JOIN recorded USING (counter, period)
    WHERE coalesce(counted.quantity, 0) <> coalesce(recorded.quantity, 0)
    ORDER BY counter, period
  `);
