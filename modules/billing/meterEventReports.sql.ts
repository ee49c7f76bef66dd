import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, safeInteger, values } from "../../db/sql.ts";
import type { UsageState } from "./meterEvents.rules.ts";
import { meterEventRow, ATTENTION_CAUSES, WAITS } from "./meterEvents.rules.ts";
import { meterEventColumns } from "./meterEvents.sql.ts";
import { factsOfRegistration } from "./registrationFacts.sql.ts";
import { inSpan } from "./streams.sql.ts";
import type { Span } from "./usage.rules.ts";
import { kindColumn } from "../records/columns.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";

const listedRow = meterEventRow.extend({ accountName: z.string() });

export type ListedMeterEvent = Readonly<z.output<typeof listedRow>>;

/** A constant rather than a parameter, so that partial indexes are used. */
const IN_STATE: Readonly<Record<UsageState, FragmentSqlToken>> = {
  pending: sql.fragment`meter_event.state = 'pending'`,
  delivered: sql.fragment`meter_event.state = 'delivered'`,
  failed: sql.fragment`meter_event.state = 'failed' AND meter_event.failure <> 'difference'`,
  closed: sql.fragment`meter_event.state = 'closed'`,
  late: sql.fragment`meter_event.is_late`,
  difference: sql.fragment`meter_event.state = 'failed' AND meter_event.failure = 'difference'`,
};

const ofAccount = (accountId: string | null): FragmentSqlToken =>
  accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`;

/** Selects events of a table `meter_event` with the names of their accounts. */
const selectListed = (events: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT ${meterEventColumns}, account.name AS "accountName"
  FROM ${events} AS meter_event
  JOIN account ON account.id = meter_event.account_id
`;

/**
 * The events with the latest seconds of each of an account's streams, as a table. There is no index of an account's events by
 * their ids: in that order, all later events of the other accounts would be read.
 */
const latestOf = (accountId: string, condition: FragmentSqlToken, limit: number) => sql.fragment`
  (
    SELECT latest.*
    FROM ${values(MODES)} AS mode
    CROSS JOIN ${values(KINDS)} AS kind
    CROSS JOIN LATERAL (
      SELECT *
      FROM meter_event
      WHERE account_id = ${accountId} AND meter_event.mode = mode.mode AND meter_event.kind = kind.kind AND ${condition}
      ORDER BY second DESC, sequence DESC
      LIMIT ${limit}
    ) AS latest
  )
`;

/** Lists meter events, the latest sealed first; those of an account, the latest usage first. */
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
    readonly span?: Span | null;
    readonly limit: number;
  },
): Promise<readonly ListedMeterEvent[]> => {
  const inState = state === null ? sql.fragment`true` : IN_STATE[state];
  const condition = sql.fragment`${inState} AND ${inSpan("meter_event", span)}`;
  const isIndexed = state !== null && state !== "delivered" && state !== "closed";
  const events =
    accountId === null || isIndexed
      ? sql.fragment`meter_event`
      : latestOf(accountId, condition, limit);
  return db.any(sql.type(listedRow)`
    ${selectListed(events)}
    WHERE ${condition} AND ${ofAccount(accountId)}
    ORDER BY ${accountId === null ? sql.fragment`` : sql.fragment`second DESC,`} meter_event.id DESC
    LIMIT ${limit}
  `);
};

/** The ids of the events that have facts of registrations, as a query. */
const eventsOfRegistrations = (ids: readonly string[]): FragmentSqlToken => sql.fragment`
  SELECT usage_fact.meter_event_id
  FROM registration
  CROSS JOIN LATERAL ${factsOfRegistration} AS usage_fact
  WHERE registration.id = ANY(${sql.array([...ids], "uuid")})
`;

/** Lists the meter events with an id, or of a registration and its refunds, the first sealed first. */
export const listMeterEventsOf = (
  db: CommonQueryMethods,
  of: { readonly id: bigint } | { readonly registrationId: string },
): Promise<readonly ListedMeterEvent[]> =>
  db.any(sql.type(listedRow)`
    ${selectListed(sql.fragment`meter_event`)}
    WHERE ${
      "id" in of
        ? sql.fragment`meter_event.id = ${of.id}`
        : sql.fragment`meter_event.id = ANY(ARRAY(${eventsOfRegistrations([of.registrationId])}))`
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

export type UsageAttention = Readonly<z.output<typeof attentionRow>>;

/** The events that have an operator's attention, as a table. */
const attended = sql.fragment`
  (
    SELECT
      meter_event.id, meter_event.account_id, meter_event.kind, meter_event.second, meter_event.quantity AS units,
      CASE
        WHEN meter_event.failure = 'refused' AND meter_event.quantity < 0 AND NOT meter_event.may_be_delivered
          AND meter_event.customer_id IS DISTINCT FROM (SELECT stripe_customer_id FROM account WHERE id = meter_event.account_id)
          THEN 'credit_owed'
        WHEN meter_event.failure <> 'waits_for_usage' THEN meter_event.failure
        WHEN usage.state = 'closed' THEN 'credit_owed'
        ELSE ${WAITS}
      END AS cause,
      meter_event.last_error AS reason
    FROM meter_event
    LEFT JOIN meter_event AS usage ON usage.id = meter_event.waits_for
    WHERE meter_event.state = 'failed'
    UNION ALL
    SELECT id, account_id, kind, second, quantity, 'late', last_error
    FROM meter_event
    WHERE is_late
    UNION ALL
    SELECT
      id, account_id, kind, second, quantity, CASE WHEN asking_since IS NULL THEN 'trouble' ELSE 'asking' END, last_error
    FROM meter_event
    WHERE state = 'pending' AND (asking_since IS NOT NULL OR last_error IS NOT NULL)
  )
`;

/** Lists what has an operator's attention by organization, kind and cause, the oldest usage first; null: of all. */
export const listUsageAttention = (
  db: CommonQueryMethods,
  accountId: string | null,
  eventId: bigint | null = null,
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
      (array_agg(CASE cause WHEN 'difference' THEN 'D' ELSE 'E' END || attended.id ORDER BY attended.id))[1:5] AS "firstIds",
      (array_agg(reason ORDER BY attended.id DESC))[1] AS reason
    FROM ${attended} AS attended
    JOIN account ON account.id = attended.account_id
    WHERE cause <> ${WAITS}
      AND ${ofAccount(accountId)}
      AND ${eventId === null ? sql.fragment`true` : sql.fragment`attended.id = ${eventId}`}
    GROUP BY account_id, account.name, attended.kind, cause
    ORDER BY min(second), account.name
  `);

const countRow = attentionRow.pick({ cause: true, items: true, units: true });

/** Counts the items of each cause that occurs, and their units without signs. */
export const countUsageAttention = (db: CommonQueryMethods) =>
  db.any(sql.type(countRow)`
    SELECT cause, count(*)::integer AS items, sum(abs(units))::bigint AS units
    FROM ${attended} AS attended
    WHERE cause <> ${WAITS}
    GROUP BY cause
  `);

const idRow = z.strictObject({ id: z.bigint() });

/** What an operator selects of the open events: all that is not given is null. */
export type OpenUsageFilter = {
  readonly accountId?: string | null;
  readonly registrationIds?: readonly string[] | null;
  readonly kind?: Kind | null;
  readonly span?: Span | null;
};

/** Lists the open events of some causes, the oldest usage first. */
export const listOpenUsage = (
  db: CommonQueryMethods,
  causes: readonly string[],
  { accountId = null, registrationIds = null, kind = null, span = null }: OpenUsageFilter = {},
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT id
    FROM ${attended} AS attended
    WHERE cause = ANY(${sql.array([...causes], "text")})
      AND ${ofAccount(accountId)}
      AND ${inSpan("attended", span)}
      AND ${kind === null ? sql.fragment`true` : sql.fragment`kind = ${kind}`}
      AND ${
        registrationIds === null
          ? sql.fragment`true`
          : sql.fragment`id = ANY(ARRAY(${eventsOfRegistrations(registrationIds)}))`
      }
    ORDER BY second, id
  `);
