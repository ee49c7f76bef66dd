import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn, processorColumn, streamColumns } from "../columns.ts";
import { FAILED, UNFINISHED } from "./meterEventStates.ts";
import { sql } from "../sql.ts";

const reportedStreamRow = z.strictObject({
  accountId: z.uuid(),
  accountName: z.string(),
  mode: modeColumn,
  meter: kindColumn,
  processor: processorColumn,
  customerId: z.string().nullable(),
});

/** What was reported for whom: an account's stream may have had several customers over time. */
export type ReportedStream = Readonly<z.output<typeof reportedStreamRow>>;

/** The streams with meter events in a half-open span of unix seconds that were, or are to be, sent. */
export const listReportedStreams = (
  db: CommonQueryMethods,
  span: { readonly start: number; readonly end: number },
  accountId: string | null,
): Promise<readonly ReportedStream[]> =>
  db.any(sql.type(reportedStreamRow)`
    SELECT DISTINCT
      meter_event.account_id AS "accountId",
      account.name AS "accountName",
      meter_event.mode,
      meter_event.meter,
      meter_event.processor,
      meter_event.customer_id AS "customerId"
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE meter_event.second >= ${span.start}
      AND meter_event.second < ${span.end}
      AND meter_event.state NOT IN ('void', 'held', 'superseded', 'waived')
      AND (${accountId}::uuid IS NULL OR meter_event.account_id = ${accountId})
    ORDER BY account.name, meter_event.account_id, meter_event.mode, meter_event.meter
  `);

const quantitiesRow = z.strictObject({
  minute: z.bigint().transform(Number),
  delivered: z.bigint().transform(Number),
  unfinished: z.bigint().transform(Number),
  failed: z.bigint().transform(Number),
  addedLately: z.bigint().transform(Number),
  takenBackLately: z.bigint().transform(Number),
});

/**
 * What a stream's meter events of one minute (unix seconds of its start) add up to, by how far they have come; of what
 * was delivered also, apart, what came lately: new usage and, below 0, refunds.
 */
export type MinuteQuantities = Readonly<z.output<typeof quantitiesRow>>;

export const sumByMinute = (
  db: CommonQueryMethods,
  stream: ReportedStream,
  span: { readonly start: number; readonly end: number },
  /** After this instant it is lately. */
  latelyAfter: Date,
): Promise<readonly MinuteQuantities[]> =>
  db.any(sql.type(quantitiesRow)`
    SELECT
      second - second % 60 AS minute,
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS delivered,
      coalesce(sum(quantity) FILTER (WHERE state IN (${UNFINISHED})), 0)::bigint AS unfinished,
      coalesce(sum(quantity) FILTER (WHERE state IN (${FAILED})), 0)::bigint AS failed,
      coalesce(sum(greatest(quantity, 0)) FILTER (WHERE lately), 0)::bigint AS "addedLately",
      coalesce(sum(least(quantity, 0)) FILTER (WHERE lately), 0)::bigint AS "takenBackLately"
    FROM meter_event
    CROSS JOIN LATERAL (
      SELECT state = 'delivered' AND settled_at > ${latelyAfter.toISOString()} AS lately
    ) AS delivery
    WHERE account_id = ${stream.accountId}
      AND mode = ${stream.mode}
      AND meter = ${stream.meter}
      AND processor = ${stream.processor}
      AND customer_id IS NOT DISTINCT FROM ${stream.customerId}
      AND second >= ${span.start}
      AND second < ${span.end}
    GROUP BY 1
    ORDER BY 1
  `);

const unsealedRow = z.strictObject({
  ...streamColumns,
  quantity: z.bigint().transform(Number),
});

/** The units in no meter event yet, by stream. */
export const sumUnsealed = (
  db: CommonQueryMethods,
  span: { readonly start: number; readonly end: number },
  accountId: string | null,
): Promise<readonly Readonly<z.output<typeof unsealedRow>>[]> =>
  db.any(sql.type(unsealedRow)`
    SELECT account_id AS "accountId", mode, meter, sum(quantity)::bigint AS quantity
    FROM usage_fact
    WHERE meter_event_id IS NULL
      AND second >= ${span.start}
      AND second < ${span.end}
      AND (${accountId}::uuid IS NULL OR account_id = ${accountId})
    GROUP BY account_id, mode, meter
  `);

/** Meter events that failed for good. */
export const countFailedMeterEvents = async (db: CommonQueryMethods): Promise<number> =>
  Number(
    await db.oneFirst(sql.type(z.strictObject({ failed: z.bigint() }))`
      SELECT count(*) AS failed
      FROM meter_event
      WHERE state IN (${FAILED})
    `),
  );
