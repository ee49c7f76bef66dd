import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";
import { inSpan } from "./streams.sql.ts";
import { MAXIMUM_QUANTITY } from "./usage.rules.ts";
import type { Span } from "./usage.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";

/** A constant rather than a parameter, so that prepared statements do not send it each time. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

const unsealedUsageRow = z.strictObject({
  ...ownerColumns,
  accountName: z.string(),
  facts: safeInteger,
  quantity: safeInteger,
  oldestSecond: safeInteger,
});

/** The facts of a stream that are in no meter event yet. */
export type UnsealedUsage = Readonly<z.output<typeof unsealedUsageRow>>;

export const listUnsealedUsage = (
  db: CommonQueryMethods,
  {
    accountId,
    span = null,
    limit,
  }: { readonly accountId: string | null; readonly span?: Span | null; readonly limit: number },
): Promise<readonly UnsealedUsage[]> =>
  db.any(sql.type(unsealedUsageRow)`
    SELECT
      unsealed.account_id AS "accountId",
      account.name AS "accountName",
      unsealed.mode,
      unsealed.kind,
      unsealed.facts,
      unsealed.quantity,
      unsealed.oldest_second AS "oldestSecond"
    FROM (
      SELECT
        account_id, mode, kind, count(*) AS facts,
        sum(quantity)::bigint AS quantity, min(second) AS oldest_second
      FROM usage_fact
      WHERE meter_event_id IS NULL
        AND ${accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`}
        AND ${inSpan(sql.fragment`second`, span)}
      GROUP BY account_id, mode, kind
    ) AS unsealed
    JOIN account ON account.id = unsealed.account_id
    ORDER BY unsealed.oldest_second
    LIMIT ${limit}
  `);

const oldestRow = z.strictObject({ second: safeInteger.nullable() });

/** Returns the unix second of the oldest usage that is not reported yet, or null. */
export const findOldestUnreportedSecond = (db: CommonQueryMethods): Promise<number | null> =>
  db.oneFirst(sql.type(oldestRow)`
    SELECT least(
      (SELECT min(second) FROM usage_fact WHERE meter_event_id IS NULL),
      (SELECT min(second) FROM meter_event WHERE state = 'pending')
    ) AS second
  `);

/** Returns whether the built-in ledger has ever had live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);
