import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import type { StatisticsQuery } from "./statistics.rules.ts";
import {
  MAXIMUM_GROUP_LENGTH,
  MAXIMUM_GROUPS,
  METADATA,
  statisticsJson,
} from "./statistics.rules.ts";
import { sql } from "../../db/sql.ts";

const groupOf = (groupBy: string | null) => {
  if (groupBy === null) {
    return sql.fragment`NULL::text`;
  }
  return groupBy.startsWith(METADATA)
    ? sql.fragment`record.metadata ->> ${groupBy.slice(METADATA.length)}`
    : sql.fragment`nullif(record.attribution, '')`;
};

/** Returns a sum that JSON, and this type, carry exactly. */
const sumOf = (column: FragmentSqlToken) =>
  sql.fragment`least(coalesce(sum(${column}), 0), ${Number.MAX_SAFE_INTEGER})::float8`;

const CENTS = sql.fragment`
  , ${sumOf(sql.fragment`registered_cents`)} AS registered_cents
  , ${sumOf(sql.fragment`refunded_cents`)} AS refunded_cents
  , ${sumOf(sql.fragment`registered_cents - refunded_cents`)} AS net_cents
`;

/** The intervals with their records. Without groups, intervals without records are rows, too. */
const intervalsOf = ({ range, interval, groupBy }: StatisticsQuery) =>
  groupBy === null
    ? sql.fragment`
      (
        SELECT start::date
        FROM generate_series(
          date_trunc(${interval}, ${range.from}::timestamp), ${range.to}::timestamp, ${`1 ${interval}`}::interval
        ) AS start
        -- A month begins before a range that ends before it begins.
        WHERE ${range.from}::date <= ${range.to}::date
      ) AS counted_interval
      LEFT JOIN placed USING (start)
    `
    : sql.fragment`placed`;

/** Returns the account's records with what is counted of each. */
const recordsOf = ({ accountId, mode, kind }: StatisticsQuery) =>
  kind === "donation"
    ? sql.fragment`
      SELECT
        created_at, attribution, metadata,
        1::bigint AS registered,
        refunded::integer::bigint AS refunded,
        amount_cents AS registered_cents,
        CASE WHEN refunded THEN amount_cents ELSE 0 END AS refunded_cents
      FROM donation
      WHERE account_id = ${accountId} AND mode = ${mode}
    `
    : sql.fragment`
      SELECT
        created_at, attribution, metadata,
        count AS registered,
        refunded_count AS refunded,
        0::bigint AS registered_cents,
        0::bigint AS refunded_cents
      FROM registration
      WHERE account_id = ${accountId} AND mode = ${mode} AND kind = ${kind}
    `;

/** Counts an account's records by the interval in which they were created. Without groups, each interval has a row. */
export const listStatistics = (db: CommonQueryMethods, query: StatisticsQuery) => {
  const { kind, range, interval, groupBy } = query;
  return db.any(sql.type(statisticsJson)`
    WITH counted AS MATERIALIZED (
      SELECT
        date_trunc(${interval}, record.created_at AT TIME ZONE 'UTC')::date AS start,
        left(${groupOf(groupBy)}, ${MAXIMUM_GROUP_LENGTH}) AS name,
        sum(record.registered) AS registered,
        sum(record.refunded) AS refunded,
        sum(record.registered_cents) AS registered_cents,
        sum(record.refunded_cents) AS refunded_cents
      FROM (${recordsOf(query)}) AS record
      WHERE record.created_at >= ${range.from}::date::timestamp AT TIME ZONE 'UTC'
        AND record.created_at < (${range.to}::date + 1)::timestamp AT TIME ZONE 'UTC'
      GROUP BY 1, 2
    ),
    -- Only those that are listed: the join compares every row with each of them.
    ranked AS (
      SELECT name, row_number() OVER (ORDER BY sum(registered) DESC, name) AS place
      FROM counted
      GROUP BY name
      ORDER BY place
      LIMIT ${MAXIMUM_GROUPS}
    ),
    placed AS (
      SELECT counted.*, ranked.place IS NULL AS is_rest, ranked.place
      FROM counted
      LEFT JOIN ranked ON ranked.name IS NOT DISTINCT FROM counted.name
    )
    SELECT
      to_char(start, 'YYYY-MM-DD') AS start,
      CASE WHEN NOT is_rest THEN min(name) END AS "group",
      coalesce(is_rest, false) AS is_rest,
      ${sumOf(sql.fragment`registered`)} AS registered,
      ${sumOf(sql.fragment`refunded`)} AS refunded,
      ${sumOf(sql.fragment`registered - refunded`)} AS net
      ${kind === "donation" ? CENTS : sql.fragment``}
    FROM ${intervalsOf(query)}
    GROUP BY start, is_rest, place
    ORDER BY start, is_rest, place
  `);
};
