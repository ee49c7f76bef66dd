import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, values, safeInteger } from "../../db/sql.ts";
import type { UsageState } from "./meterEvents.rules.ts";
import { meterEventColumns, meterEventRow } from "./meterEvents.sql.ts";
import { factsOfRegistration } from "./registrationFacts.sql.ts";
import { inSpan, ofStream } from "./streams.sql.ts";
import type { Span } from "./usage.rules.ts";
import { ATTENTION_CAUSES, needsOperator } from "./meterEvents.rules.ts";
import { kindColumn } from "../records/columns.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";

const listedRow = meterEventRow.extend({ accountName: z.string() });

export type ListedMeterEvent = Readonly<z.output<typeof listedRow>>;

const listedColumns = sql.fragment`${meterEventColumns}, account.name AS "accountName"`;

const STATE_CONDITIONS: Readonly<Record<UsageState, FragmentSqlToken>> = {
  pending: sql.fragment`meter_event.state = 'pending'`,
  delivered: sql.fragment`meter_event.state = 'delivered'`,
  failed: sql.fragment`meter_event.state = 'failed'`,
  closed: sql.fragment`meter_event.state = 'closed'`,
  late: sql.fragment`meter_event.is_late`,
};

/**
 * Lists meter events, the latest sealed first. For one account, each stream's latest events are read through the index
 * over its seconds, so the cost does not grow with the account's history.
 */
export const listMeterEvents = (
  db: CommonQueryMethods,
  {
    state,
    accountId,
    span = null,
    limit,
  }: {
    readonly state: UsageState | null;
    readonly accountId: string | null;
    /** Null: of all times. */
    readonly span?: Span | null;
    readonly limit: number;
  },
): Promise<readonly ListedMeterEvent[]> => {
  const inState = sql.fragment`
    ${state === null ? sql.fragment`true` : STATE_CONDITIONS[state]} AND ${inSpan(sql.fragment`meter_event.second`, span)}
  `;
  if (accountId === null) {
    return db.any(sql.type(listedRow)`
      SELECT ${listedColumns}
      FROM meter_event
      JOIN account ON account.id = meter_event.account_id
      WHERE ${inState}
      ORDER BY meter_event.id DESC
      LIMIT ${limit}
    `);
  }
  return db.any(sql.type(listedRow)`
    SELECT ${listedColumns}
    FROM ${values(MODES)} AS mode
    CROSS JOIN ${values(KINDS)} AS kind
    CROSS JOIN LATERAL (
      SELECT *
      FROM meter_event
      WHERE meter_event.account_id = ${accountId}
        AND meter_event.mode = mode.mode
        AND meter_event.kind = kind.kind
        AND ${inState}
      ORDER BY meter_event.second DESC, meter_event.sequence DESC
      LIMIT ${limit}
    ) AS meter_event
    JOIN account ON account.id = meter_event.account_id
    ORDER BY meter_event.id DESC
    LIMIT ${limit}
  `);
};

/** Lists every sealing of a stream's second in order. */
export const listSealingsOfSecond = (
  db: CommonQueryMethods,
  stream: Owner,
  second: number,
): Promise<readonly ListedMeterEvent[]> =>
  db.any(sql.type(listedRow)`
    SELECT ${listedColumns}
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE ${ofStream("meter_event", stream)} AND meter_event.second = ${second}
    ORDER BY meter_event.sequence
  `);

const idRow = z.strictObject({ id: z.bigint() });

/** Lists the failed events of an account or of registrations, oldest first. */
export const listFailedMeterEventIds = (
  db: CommonQueryMethods,
  of: { readonly accountId: string } | { readonly registrationIds: readonly string[] },
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT meter_event.id
    FROM meter_event
    WHERE meter_event.state = 'failed' AND ${
      "accountId" in of
        ? sql.fragment`meter_event.account_id = ${of.accountId}`
        : sql.fragment`meter_event.id IN (
            SELECT usage_fact.meter_event_id
            FROM registration
            CROSS JOIN LATERAL ${factsOfRegistration} AS usage_fact
            WHERE registration.id = ANY(${sql.array([...of.registrationIds], "uuid")})
          )`
    }
    ORDER BY meter_event.id
  `);

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
    WHERE is_late
    UNION ALL
    SELECT
      'E', id, account_id, kind, second, quantity,
      CASE WHEN asking_since IS NULL THEN 'trouble' ELSE 'asking' END,
      last_error
    FROM meter_event
    WHERE state = 'pending' AND (asking_since IS NOT NULL OR last_error IS NOT NULL)
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

/** Lists the items of an account, or of all (null), that need an operator, the oldest first. */
export const listOpenItems = async (
  db: CommonQueryMethods,
  accountId: string | null,
): Promise<readonly Readonly<z.output<typeof openRow>>[]> => {
  const items = await db.any(sql.type(openRow)`
    SELECT letter, attended.id, cause
    FROM ${attended} AS attended
    WHERE ${ofAccount(accountId)}
    ORDER BY second, attended.id
  `);
  return items.filter(({ cause }) => needsOperator(cause));
};
