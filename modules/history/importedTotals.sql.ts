import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";
import type { ImportKind } from "./importedRecords.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";

/** What a record adds to the sums: units of a registration, cents of a donation. */
export type Addend = {
  readonly kind: ImportKind;
  readonly month: string;
  readonly attribution: string;
  readonly quantity: number;
  readonly refunded: number;
};

/** Adds to the sums of the files that a run reads. */
export const addToFileTotals = async (
  connection: CommonQueryMethods,
  runId: string,
  addends: readonly Addend[],
): Promise<void> => {
  await connection.query(sql.typeAlias("void")`
    INSERT INTO import_file_total AS known (run_id, kind, month, attribution, records, quantity, refunded)
    SELECT ${runId}::uuid, kind, month, attribution, count(*), sum(quantity), sum(refunded)
    FROM json_to_recordset(${JSON.stringify(addends)})
      AS given (kind text, month text, attribution text, quantity bigint, refunded bigint)
    GROUP BY kind, month, attribution
    ON CONFLICT (run_id, kind, month, attribution_digest) DO UPDATE
    SET
      records = known.records + excluded.records,
      quantity = known.quantity + excluded.quantity,
      refunded = known.refunded + excluded.refunded
  `);
};

const sums = { records: safeInteger, quantity: z.string(), refunded: z.string() };

const differenceRow = z.strictObject({
  kind: z.enum(IMPORT_KINDS),
  month: z.string(),
  attribution: z.string(),
  files: z.strictObject({ ...sums, records: z.int() }),
  database: z.strictObject({ ...sums, records: z.int() }),
});

/** Sums of a kind, a UTC month and an attribution that differ. Quantities are decimal digits: they may exceed 2^53. */
export type TotalDifference = Readonly<z.output<typeof differenceRow>>;

/** The sums of the imported records. */
const databaseTotals = ({ accountId, mode }: AccountMode): FragmentSqlToken => sql.fragment`
  SELECT
    kind,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month,
    attribution,
    count(*) AS records,
    sum(count) AS quantity,
    sum(refunded_count) AS refunded
  FROM registration
  WHERE account_id = ${accountId} AND mode = ${mode} AND ${isImported(sql.fragment`id`)}
  GROUP BY 1, 2, 3
  UNION ALL
  SELECT
    'donation',
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'),
    attribution,
    count(*),
    sum(amount_cents),
    coalesce(sum(amount_cents) FILTER (WHERE refunded), 0)
  FROM donation
  WHERE account_id = ${accountId} AND mode = ${mode} AND ${isImported(sql.fragment`id`)}
  GROUP BY 1, 2, 3
`;

/** Lists the sums in which the files differ from the imported records. */
export const listTotalDifferences = (
  connection: CommonQueryMethods,
  runId: string,
  owner: AccountMode,
  limit: number,
): Promise<readonly TotalDifference[]> =>
  connection.any(sql.type(differenceRow)`
    SELECT
      kind,
      month,
      attribution,
      json_build_object(
        'records', coalesce(file.records, 0),
        'quantity', coalesce(file.quantity, 0)::text,
        'refunded', coalesce(file.refunded, 0)::text
      ) AS files,
      json_build_object(
        'records', coalesce(database.records, 0),
        'quantity', coalesce(database.quantity, 0)::text,
        'refunded', coalesce(database.refunded, 0)::text
      ) AS database
    FROM (SELECT * FROM import_file_total WHERE run_id = ${runId}) AS file
    FULL JOIN (${databaseTotals(owner)}) AS database USING (kind, month, attribution)
    WHERE (file.records, file.quantity, file.refunded)
      IS DISTINCT FROM (database.records, database.quantity, database.refunded)
    ORDER BY kind, month, attribution
    LIMIT ${limit}
  `);

const kindRow = z.strictObject({ kind: z.enum(IMPORT_KINDS), ...sums });

/** The sums of one kind. */
export type KindTotals = Readonly<z.output<typeof kindRow>>;

export const listFileTotals = (
  connection: CommonQueryMethods,
  runId: string,
): Promise<readonly KindTotals[]> =>
  connection.any(sql.type(kindRow)`
    SELECT kind, sum(records)::bigint AS records, sum(quantity)::text AS quantity, sum(refunded)::text AS refunded
    FROM import_file_total
    WHERE run_id = ${runId}
    GROUP BY kind
    ORDER BY kind
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
  connection: CommonQueryMethods,
  { accountId, mode }: AccountMode,
): Promise<readonly CounterDifference[]> =>
  connection.any(sql.type(counterRow)`
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
