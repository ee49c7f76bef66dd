import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Span } from "./usage.rules.ts";
import { MAXIMUM_QUANTITY } from "./usage.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { factsOfRegistration } from "./registrationFacts.sql.ts";
import { inSpan } from "./streams.sql.ts";

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

const factRow = z.strictObject({
  id: safeInteger,
  refundId: z.uuid().nullable(),
  quantity: safeInteger,
  second: safeInteger,
  meterEventId: safeInteger.nullable(),
});

export type UsageFact = Readonly<z.output<typeof factRow>>;

/**
 * Lists the facts of a registration and its refunds, with its own units of facts that others share. Very many units are in
 * several facts, of which it has the first.
 */
export const listFactsOfRegistration = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<readonly UsageFact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      usage_fact.id,
      usage_fact.refund_id AS "refundId",
      CASE
        WHEN usage_fact.refund_id IS NOT NULL THEN usage_fact.quantity
        ELSE greatest(0, least(
          usage_fact.quantity,
          registration.count + usage_fact.quantity
            - sum(usage_fact.quantity) OVER (PARTITION BY usage_fact.refund_id ORDER BY usage_fact.id)
        ))::bigint
      END AS quantity,
      usage_fact.second,
      usage_fact.meter_event_id AS "meterEventId"
    FROM registration
    CROSS JOIN LATERAL ${factsOfRegistration} AS usage_fact
    WHERE registration.id = ${registrationId}
    ORDER BY usage_fact.id
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

const countRow = z.strictObject({ facts: safeInteger });

/** Counts the facts that are in no meter event yet, up to an id. */
export const countUnsealedFacts = (db: CommonQueryMethods, lastId: number): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS facts FROM usage_fact WHERE meter_event_id IS NULL AND id <= ${lastId}
  `);
