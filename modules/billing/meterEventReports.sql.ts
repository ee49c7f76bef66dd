import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS, MODES } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { UsageState } from "./meterEvents.rules.ts";
import { sql, values } from "../../db/sql.ts";
import { isOfEndedPeriod } from "./billingPeriods.sql.ts";
import type { PeriodEnds } from "./billingPeriods.sql.ts";
import { isLateWithoutDocument, meterEventColumns, meterEventRow } from "./meterEvents.sql.ts";
import { inSpan, ofStream } from "./streams.sql.ts";
import type { Span } from "./usage.rules.ts";
import { factsOfRegistration } from "./registrationFacts.sql.ts";

const listedRow = meterEventRow.extend({ accountName: z.string() });

export type ListedMeterEvent = Readonly<z.output<typeof listedRow>>;

const listedColumns = sql.fragment`${meterEventColumns}, account.name AS "accountName"`;

const STATE_CONDITIONS: Readonly<Record<UsageState, FragmentSqlToken>> = {
  pending: sql.fragment`meter_event.state = 'pending'`,
  delivered: sql.fragment`meter_event.state = 'delivered'`,
  failed: sql.fragment`meter_event.state = 'failed'`,
  closed: sql.fragment`meter_event.state = 'closed'`,
  late: isLateWithoutDocument,
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
    WHERE meter_event.state = 'failed' AND ${condition}
    ORDER BY meter_event.id
  `);
};

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
