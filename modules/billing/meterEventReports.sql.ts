import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS, MODES } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { DELIVERED_LATE } from "./meterEvents.rules.ts";
import type { UsageState } from "./meterEvents.rules.ts";
import { safeInteger, sql, values } from "../../db/sql.ts";
import { isOfEndedPeriod } from "./billingPeriods.sql.ts";
import type { PeriodEnds } from "./billingPeriods.sql.ts";
import { FAILED, meterEventColumns, meterEventRow, UNFINISHED } from "./meterEvents.sql.ts";
import { ofStream } from "./streams.sql.ts";
import { factsOfRegistration, shareRegistrations } from "./registrationFacts.sql.ts";

const listedRow = meterEventRow.extend({ accountName: z.string() });

export type ListedMeterEvent = Readonly<z.output<typeof listedRow>>;

const listedColumns = sql.fragment`${meterEventColumns}, account.name AS "accountName"`;

/** A constant: PostgreSQL uses the partial index of late deliveries only if it is one. */
const LATE_NOTE = sql.literalValue(DELIVERED_LATE);

/**
 * Whether an event has a refund of usage whose event is in one of the states. The offsets make these look-ups, event by
 * event, whatever the statistics are.
 */
const refundsUsageIn = (states: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  EXISTS (
    SELECT
    FROM usage_fact AS refunded
    CROSS JOIN LATERAL (
      SELECT meter_event_id
      FROM usage_fact AS original
      WHERE ${shareRegistrations("original", "refunded")} AND original.refund_id IS NULL
      OFFSET 0
    ) AS original
    WHERE refunded.meter_event_id = meter_event.id
      AND (SELECT state FROM meter_event AS counted WHERE counted.id = original.meter_event_id) IN (${states})
    OFFSET 0
  )
`;

const refundsWaivedUsage = refundsUsageIn(sql.fragment`'waived'`);

const uncredited = sql.fragment`
  meter_event.state = 'held' AND meter_event.mode = 'live' AND ${refundsWaivedUsage}
`;

const STATE_CONDITIONS: Readonly<Record<UsageState, FragmentSqlToken>> = {
  pending: sql.fragment`meter_event.state IN (${UNFINISHED})`,
  delivered: sql.fragment`meter_event.state = 'delivered'`,
  failed: sql.fragment`meter_event.state IN (${FAILED})`,
  waived: sql.fragment`meter_event.state = 'waived'`,
  late: sql.fragment`meter_event.state = 'delivered' AND meter_event.last_error = ${LATE_NOTE}`,
  held: sql.fragment`meter_event.state = 'held'`,
  uncredited,
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
    limit,
  }: {
    readonly state: UsageState | null;
    readonly accountId: string | null;
    readonly limit: number;
  },
): Promise<readonly ListedMeterEvent[]> => {
  const inState = state === null ? sql.fragment`true` : STATE_CONDITIONS[state];
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

/** Lists every sealing of a stream's second in order, superseded ones included. */
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

/** Lists the failed events of all accounts (null), an account or a registration, oldest first. */
export const listFailedMeterEventIds = async (
  db: CommonQueryMethods,
  of: { readonly accountId: string } | { readonly registrationId: string } | null,
): Promise<readonly bigint[]> => {
  const condition =
    of === null
      ? sql.fragment`true`
      : "accountId" in of
        ? sql.fragment`meter_event.account_id = ${of.accountId}`
        : sql.fragment`EXISTS (
            SELECT
            FROM registration
            CROSS JOIN LATERAL ${factsOfRegistration} AS usage_fact
            WHERE registration.id = ${of.registrationId} AND usage_fact.meter_event_id = meter_event.id
          )`;
  return db.anyFirst(sql.type(idRow)`
    SELECT meter_event.id
    FROM meter_event
    WHERE meter_event.state IN (${FAILED}) AND ${condition}
    ORDER BY meter_event.id
  `);
};

const countRow = z.strictObject({ events: safeInteger });

const countIn =
  (state: UsageState) =>
  (db: CommonQueryMethods): Promise<number> =>
    db.oneFirst(sql.type(countRow)`
      SELECT count(*) AS events
      FROM meter_event
      WHERE ${STATE_CONDITIONS[state]}
    `);

export const countFailedMeterEvents = countIn("failed");

/** Counts the events that were delivered after their billing period ended and are not settled by hand. */
export const countLateMeterEvents = countIn("late");

/** Counts the refunds of usage that was settled by hand or waived, as far as no operator has settled or waived them. */
export const countUncreditedMeterEvents = countIn("uncredited");

/**
 * Returns whether an event that is not closed itself has refunds of usage that was settled by hand or waived, and none of
 * failed usage: a retry of that would not send the refund of it if the event were closed.
 */
export const isWaivableRefund = (db: CommonQueryMethods, meterEventId: bigint): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT
    FROM (SELECT * FROM meter_event WHERE meter_event.id = ${meterEventId} OFFSET 0) AS meter_event
    WHERE meter_event.state = 'held'
      AND ${refundsWaivedUsage}
      AND NOT ${refundsUsageIn(FAILED)}
  `);

/** Returns whether a retry of an event reports its facts. Refunds of waived usage are only held again. */
export const hasReportableFacts = (
  db: CommonQueryMethods,
  meterEventId: bigint,
): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT
    FROM (SELECT * FROM meter_event WHERE meter_event.id = ${meterEventId} OFFSET 0) AS meter_event
    WHERE NOT ${refundsWaivedUsage}
  `);

/** Lists those of the meter events whose billing period has ended. Only live usage at Stripe has periods. */
export const listMeterEventIdsOfEndedPeriods = (
  db: CommonQueryMethods,
  meterEventIds: readonly bigint[],
  ends: PeriodEnds,
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT meter_event.id
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE meter_event.id = ANY(${sql.array([...meterEventIds], "int8")})
      AND meter_event.mode = 'live'
      AND meter_event.processor = 'stripe'
      AND ${isOfEndedPeriod(sql.fragment`meter_event.kind`, sql.fragment`meter_event.second`, ends)}
    ORDER BY meter_event.id
  `);
