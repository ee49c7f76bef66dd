import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { kindColumn } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { ATTENTION_CAUSES, needsOperator } from "./usageAttention.rules.ts";
import { isLateWithoutDocument } from "./meterEvents.sql.ts";
import { inSpan } from "./streams.sql.ts";
import type { Span } from "./usage.rules.ts";

const attentionRow = z.strictObject({
  accountId: z.uuid(),
  accountName: z.string(),
  kind: kindColumn,
  cause: z.enum(ATTENTION_CAUSES),
  items: z.int(),
  units: z.bigint().transform(Number),
  oldestSecond: safeInteger,
  /** The first ones, such as `E5` or `D17`. */
  firstIds: z.array(z.string()),
  reason: z.string().nullable(),
});

/** The usage of an organization and kind that has an operator's attention for one cause. */
export type UsageAttention = Readonly<z.output<typeof attentionRow>>;

/** Attempts of an event after which its stream is in trouble. Most failures of single calls pass sooner. */
const TROUBLED_ATTEMPTS = 3;

/** The events and differences that have an operator's attention, as a table. */
const attended = sql.fragment`
  (
    SELECT
      'E' AS letter, meter_event.id, meter_event.account_id, meter_event.kind, meter_event.second, meter_event.quantity AS units,
      CASE meter_event.failure WHEN 'waits_for_usage' THEN 'credit_owed' ELSE meter_event.failure END AS cause,
      meter_event.last_error AS reason
    FROM meter_event
    LEFT JOIN meter_event AS usage ON usage.id = meter_event.waits_for
    WHERE meter_event.state = 'failed'
      -- A refund whose usage is not decided needs no decision of its own.
      AND (meter_event.waits_for IS NULL OR usage.state = 'closed')
    UNION ALL
    SELECT 'E', id, account_id, kind, second, quantity, 'late', last_error
    FROM meter_event
    WHERE ${isLateWithoutDocument}
    UNION ALL
    SELECT
      'E', id, account_id, kind, second, quantity,
      CASE WHEN asking_since IS NULL THEN 'trouble' ELSE 'asking' END,
      last_error
    FROM meter_event
    WHERE state = 'pending' AND (asking_since IS NOT NULL OR attempts >= ${TROUBLED_ATTEMPTS})
    UNION ALL
    SELECT 'D', id, account_id, kind, second, units, 'difference', NULL
    FROM usage_difference
    WHERE state = 'open'
  )
`;

const ofAccount = (accountId: string | null): FragmentSqlToken =>
  accountId === null ? sql.fragment`true` : sql.fragment`attended.account_id = ${accountId}`;

/** Lists what has an operator's attention by organization, kind and cause, the oldest usage first. */
export const listUsageAttention = (
  db: CommonQueryMethods,
  accountId: string | null,
): Promise<readonly UsageAttention[]> =>
  db.any(sql.type(attentionRow)`
    SELECT
      account_id AS "accountId",
      account.name AS "accountName",
      attended.kind,
      cause,
      count(*)::integer AS items,
      sum(units)::bigint AS units,
      min(second) AS "oldestSecond",
      (array_agg(letter || attended.id ORDER BY attended.id))[1:5] AS "firstIds",
      (array_agg(reason ORDER BY attended.id DESC))[1] AS reason
    FROM ${attended} AS attended
    JOIN account ON account.id = attended.account_id
    WHERE ${ofAccount(accountId)}
    GROUP BY account_id, account.name, attended.kind, cause
    ORDER BY min(second), account.name
  `);

const countRow = z.strictObject({
  cause: z.enum(ATTENTION_CAUSES),
  items: z.int(),
  units: z.bigint().transform(Number),
});

/** Counts the items of each cause that occurs, and their units without signs. */
export const countUsageAttention = (
  db: CommonQueryMethods,
): Promise<readonly Readonly<z.output<typeof countRow>>[]> =>
  db.any(sql.type(countRow)`
    SELECT cause, count(*)::integer AS items, sum(abs(units))::bigint AS units
    FROM ${attended} AS attended
    GROUP BY cause
  `);

const openRow = z.strictObject({
  letter: z.enum(["E", "D"]),
  id: z.bigint(),
  cause: z.enum(ATTENTION_CAUSES),
});

/**
 * Lists the items that need an operator, the oldest first.
 * @param of.span only usage of a half-open span of unix seconds; null: all
 */
export const listOpenItems = async (
  db: CommonQueryMethods,
  {
    accountId,
    span,
  }: {
    readonly accountId: string | null;
    readonly span: Span | null;
  },
): Promise<readonly Readonly<z.output<typeof openRow>>[]> => {
  const items = await db.any(sql.type(openRow)`
    SELECT letter, attended.id, cause
    FROM ${attended} AS attended
    WHERE ${ofAccount(accountId)}
      AND ${inSpan(sql.fragment`second`, span)}
    ORDER BY second, attended.id
  `);
  return items.filter(({ cause }) => needsOperator(cause));
};
