import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { DELIVERED_LATE } from "../../domain/billing/usage.ts";
import { meterEventStateColumn, processorColumn, safeInteger, streamColumns } from "../columns.ts";
import { FAILED, UNFINISHED } from "./meterEventStates.ts";
import { sql } from "../sql.ts";

const eventRow = z.strictObject({
  ...streamColumns,
  id: safeInteger,
  accountName: z.string(),
  second: safeInteger,
  quantity: safeInteger,
  identifier: z.string(),
  processor: processorColumn,
  customerId: z.string().nullable(),
  state: meterEventStateColumn,
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  outcomeUnknown: z.boolean(),
  lastError: z.string().nullable(),
  sealedAt: z.date(),
  settledAt: z.date().nullable(),
});

/** A meter event as support looks at it. */
export type ListedMeterEvent = Readonly<z.output<typeof eventRow>>;

const eventColumns = sql.fragment`
  meter_event.id,
  meter_event.account_id AS "accountId",
  account.name AS "accountName",
  meter_event.mode,
  meter_event.meter,
  meter_event.second,
  meter_event.quantity,
  meter_event.identifier,
  meter_event.processor,
  meter_event.customer_id AS "customerId",
  meter_event.state,
  meter_event.attempts,
  meter_event.first_attempt_at AS "firstAttemptAt",
  meter_event.outcome_unknown AS "outcomeUnknown",
  meter_event.last_error AS "lastError",
  meter_event.sealed_at AS "sealedAt",
  meter_event.settled_at AS "settledAt"
`;

const STATE_CONDITIONS: Readonly<Record<UsageState, FragmentSqlToken>> = {
  pending: sql.fragment`meter_event.state IN (${UNFINISHED})`,
  sent: sql.fragment`meter_event.state = 'delivered'`,
  failed: sql.fragment`meter_event.state IN (${FAILED})`,
  waived: sql.fragment`meter_event.state = 'waived'`,
  late: sql.fragment`meter_event.state = 'delivered' AND meter_event.last_error = ${DELIVERED_LATE}`,
};

/** How far usage has come, as people ask for it. */
export type UsageState = "pending" | "sent" | "failed" | "waived" | "late";

/**
 * Meter events, those sealed last first; without a state, of every one. Of one account each stream's latest are read
 * through the index over its seconds, so that a long history costs nothing.
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
    return db.any(sql.type(eventRow)`
      SELECT ${eventColumns}
      FROM meter_event
      JOIN account ON account.id = meter_event.account_id
      WHERE ${inState}
      ORDER BY meter_event.id DESC
      LIMIT ${limit}
    `);
  }
  return db.any(sql.type(eventRow)`
    SELECT ${eventColumns}
    FROM (VALUES ('live', 'tree'), ('live', 'bottle'), ('test', 'tree'), ('test', 'bottle')) AS stream (mode, meter)
    CROSS JOIN LATERAL (
      SELECT *
      FROM meter_event
      WHERE meter_event.account_id = ${accountId}
        AND meter_event.mode = stream.mode
        AND meter_event.meter = stream.meter
        AND ${inState}
      ORDER BY meter_event.second DESC, meter_event.sequence DESC
      LIMIT ${limit}
    ) AS meter_event
    JOIN account ON account.id = meter_event.account_id
    ORDER BY meter_event.id DESC
    LIMIT ${limit}
  `);
};

const unsealedRow = z.strictObject({
  ...streamColumns,
  accountName: z.string(),
  facts: safeInteger,
  quantity: safeInteger,
  oldestSecond: safeInteger,
});

/** A stream's facts that are in no meter event yet. */
export type UnsealedUsage = Readonly<z.output<typeof unsealedRow>>;

export const listUnsealedUsage = (
  db: CommonQueryMethods,
  { accountId, limit }: { readonly accountId: string | null; readonly limit: number },
): Promise<readonly UnsealedUsage[]> =>
  db.any(sql.type(unsealedRow)`
    SELECT
      unsealed.account_id AS "accountId",
      account.name AS "accountName",
      unsealed.mode,
      unsealed.meter,
      unsealed.facts,
      unsealed.quantity,
      unsealed.oldest_second AS "oldestSecond"
    FROM (
      SELECT
        account_id, mode, meter, count(*) AS facts, sum(quantity)::bigint AS quantity, min(second) AS oldest_second
      FROM usage_fact
      WHERE meter_event_id IS NULL
        AND ${accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`}
      GROUP BY account_id, mode, meter
    ) AS unsealed
    JOIN account ON account.id = unsealed.account_id
    ORDER BY unsealed.oldest_second
    LIMIT ${limit}
  `);

/** The failed events of everybody, an account or a registration, oldest first. */
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
            FROM usage_fact
            WHERE usage_fact.meter_event_id = meter_event.id AND usage_fact.registration_id = ${of.registrationId}
          )`;
  return db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT meter_event.id
    FROM meter_event
    WHERE meter_event.state IN (${FAILED}) AND ${condition}
    ORDER BY meter_event.id
  `);
};

const factRow = z.strictObject({
  id: safeInteger,
  refundId: z.uuid().nullable(),
  quantity: safeInteger,
  second: safeInteger,
  meterEventId: safeInteger.nullable(),
});

/** One booking of a registration's usage, or of a refund of it. */
export type ListedFact = Readonly<z.output<typeof factRow>>;

export const listFactsOfRegistration = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<readonly ListedFact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      id,
      refund_id AS "refundId",
      quantity,
      second,
      meter_event_id AS "meterEventId"
    FROM usage_fact
    WHERE registration_id = ${registrationId}
    ORDER BY id
  `);

/** Every sealing of a stream's second, in order, those included whose facts were taken over by a later one. */
export const listSealingsOfSecond = (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
  second: number,
): Promise<readonly ListedMeterEvent[]> =>
  db.any(sql.type(eventRow)`
    SELECT ${eventColumns}
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE meter_event.account_id = ${accountId}
      AND meter_event.mode = ${mode}
      AND meter_event.meter = ${meter}
      AND meter_event.second = ${second}
    ORDER BY meter_event.sequence
  `);

const oldestRow = z.strictObject({ second: z.bigint().transform(Number).nullable() });

/** The unix second of the oldest usage that is in no settled event, null when nothing waits. */
export const findOldestUnreportedSecond = (db: CommonQueryMethods): Promise<number | null> =>
  db.oneFirst(sql.type(oldestRow)`
    SELECT least(
      (SELECT min(second) FROM usage_fact WHERE meter_event_id IS NULL),
      (SELECT min(second) FROM meter_event WHERE state IN (${UNFINISHED}))
    ) AS second
  `);
