import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { Period } from "./billingCycle.rules.ts";
import { DELIVERED_LATE } from "./meterEvents.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { newerThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { isImported, ownedBy } from "../records/ownedRecords.sql.ts";
import { factsOfRegistration } from "./registrationFacts.sql.ts";
import { FAILED, UNFINISHED } from "./meterEvents.sql.ts";
import { ofStream } from "./streams.sql.ts";

/** What was registered and refunded again can add up to more than a safe integer. */
const sum = z.bigint();

const usageDayRow = z.strictObject({
  day: z.string(),
  registered: sum,
  refunded: sum,
  reported: sum,
  late: sum,
  failed: sum,
  waived: sum,
  settled: sum,
  held: sum,
  pending: sum,
});

/**
 * The units of a kind by the day of their registration, UTC, `YYYY-MM-DD`. Registered minus refunded units are the sum
 * of the others. `held` are refunds (0 or below) of usage that the processor does not have. A correction adds to one of the
 * others what it takes from another one.
 */
export type UsageDay = Readonly<z.output<typeof usageDayRow>>;

/** A query of the usage facts of a stream in a period, with the states of their meter events; null for unsealed facts. */
const factsWithStates = (stream: Owner, { start, end }: Period): FragmentSqlToken => sql.fragment`
  SELECT
    meter_event.second,
    usage_fact.quantity,
    usage_fact.correction_id,
    coalesce(usage_fact.already_reported, 0) AS already_reported,
    usage_fact.quantity - coalesce(usage_fact.already_reported, 0) AS rest,
    meter_event.settlement_reference IS NOT NULL AS is_settled,
    meter_event.state,
    meter_event.last_error
  FROM meter_event
  JOIN usage_fact ON usage_fact.meter_event_id = meter_event.id
  WHERE ${ofStream("meter_event", stream)}
    AND meter_event.second >= ${secondOf(start)}
    AND meter_event.second < ${secondOf(end)}
  UNION ALL
  SELECT
    second, quantity, correction_id, coalesce(already_reported, 0), quantity - coalesce(already_reported, 0), false,
    NULL, NULL
  FROM usage_fact
  WHERE ${ofStream("usage_fact", stream)}
    AND second >= ${secondOf(start)}
    AND second < ${secondOf(end)}
    AND meter_event_id IS NULL
`;

/** Sums the usage facts of a stream in a period. Refunds count on the day of their registration, as at the processor. */
export const listUsageDays = (
  db: CommonQueryMethods,
  stream: Owner,
  period: Period,
): Promise<readonly UsageDay[]> =>
  db.any(sql.type(usageDayRow)`
    SELECT
      to_char(to_timestamp(second) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
      coalesce(sum(quantity) FILTER (WHERE quantity > 0 AND correction_id IS NULL), 0)::bigint AS registered,
      coalesce(-sum(quantity) FILTER (WHERE quantity < 0 AND correction_id IS NULL), 0)::bigint AS refunded,
      coalesce(sum(already_reported), 0)::bigint + coalesce(sum(rest) FILTER (
        WHERE state = 'delivered' AND NOT is_settled AND last_error IS DISTINCT FROM ${DELIVERED_LATE}
      ), 0)::bigint AS reported,
      coalesce(sum(rest) FILTER (
        WHERE state = 'delivered' AND NOT is_settled AND last_error = ${DELIVERED_LATE}
      ), 0)::bigint AS late,
      coalesce(sum(rest) FILTER (WHERE state IN (${FAILED})), 0)::bigint AS failed,
      coalesce(sum(rest) FILTER (WHERE state = 'waived' AND NOT is_settled), 0)::bigint AS waived,
      coalesce(sum(rest) FILTER (WHERE is_settled), 0)::bigint AS settled,
      coalesce(sum(rest) FILTER (WHERE state = 'held'), 0)::bigint AS held,
      coalesce(sum(rest) FILTER (WHERE state IS NULL OR state IN (${UNFINISHED})), 0)::bigint AS pending
    FROM (${factsWithStates(stream, period)}) AS fact
    GROUP BY 1
    ORDER BY 1
  `);

const prepaidDayRow = z.strictObject({
  day: z.string(),
  registered: sum,
  refunded: sum,
  paidCents: sum,
  returnedCents: sum,
});

/**
 * The units of a store by the day of their registration, UTC, and what was paid for them and returned. Imported ones were
 * not paid from the balance here.
 */
export type PrepaidDay = Readonly<z.output<typeof prepaidDayRow>>;

export const listPrepaidDays = (
  db: CommonQueryMethods,
  stream: Owner,
  { start, end }: Period,
): Promise<readonly PrepaidDay[]> =>
  db.any(sql.type(prepaidDayRow)`
    SELECT
      to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
      sum(count)::bigint AS registered,
      sum(refunded_count)::bigint AS refunded,
      sum(count * unit_price_cents)::bigint AS "paidCents",
      sum(refunded_count * unit_price_cents)::bigint AS "returnedCents"
    FROM registration
    WHERE ${ownedBy("registration", stream)}
      AND created_at >= ${timestamp(start)}
      AND created_at < ${timestamp(end)}
      AND unit_price_cents IS NOT NULL
      AND NOT ${isImported(sql.fragment`id`)}
    GROUP BY 1
    ORDER BY 1
  `);

const detailRow = z.strictObject({
  position: z.string(),
  id: z.uuid(),
  importedId: z.string().nullable(),
  createdAt: z.date(),
  count: safeInteger,
  refundedCount: safeInteger,
  usageStates: z.string(),
  idempotencyKey: z.string().nullable(),
  attribution: z.string(),
  orderId: z.string().nullable(),
  customerEmail: z.string().nullable(),
});

/** A registration of a statement. `usageStates` are those of its usage, separated by spaces; empty without usage. */
export type StatementDetail = Readonly<z.output<typeof detailRow>>;

/** Returns a page of the registrations of a stream in a period, oldest first. */
export const listStatementDetails = (
  db: CommonQueryMethods,
  stream: Owner,
  { start, end }: Period,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly StatementDetail[]> =>
  db.any(sql.type(detailRow)`
    SELECT
      ${positionColumn("registration")},
      registration.id,
      registration.imported_id AS "importedId",
      registration.created_at AS "createdAt",
      registration.count,
      registration.refunded_count AS "refundedCount",
      coalesce(
        (
          SELECT string_agg(DISTINCT coalesce(meter_event.state, 'unsealed'), ' ')
          FROM ${factsOfRegistration} AS usage_fact
          LEFT JOIN meter_event ON meter_event.id = usage_fact.meter_event_id
        ),
        ''
      ) AS "usageStates",
      registration.idempotency_key AS "idempotencyKey",
      registration.attribution,
      registration.order_id AS "orderId",
      registration.customer_email AS "customerEmail"
    FROM registration
    WHERE ${ownedBy("registration", stream)}
      AND registration.created_at >= ${timestamp(start)}
      AND registration.created_at < ${timestamp(end)}
      AND ${newerThan("registration", after)}
    ORDER BY registration.created_at, registration.id
    LIMIT ${limit}
  `);
