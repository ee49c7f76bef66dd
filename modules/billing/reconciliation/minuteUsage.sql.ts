import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { METER_EVENT_STATES } from "../meterEvents.rules.ts";
import { PROCESSORS } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import { UNFINISHED } from "../meterEvents.sql.ts";
import { registrationsOfEvent } from "../registrationFacts.sql.ts";
import { acknowledgedUnits, failedSinceAcknowledged } from "./acknowledgedDrift.sql.ts";
import type { CustomerStream, ReportedStream } from "./reportedStreams.sql.ts";
import { isOfStream } from "./reportedStreams.sql.ts";

const sendingEvent = z.strictObject({
  id: z.string().transform(BigInt),
  processor: z.enum(PROCESSORS),
  second: z.int(),
  firstAttemptAt: z.coerce.date().nullable(),
  outcomeUnknown: z.boolean(),
  inDoubtSince: z.coerce.date().nullable(),
});

const minuteRow = z
  .strictObject({
    delivered: safeInteger,
    acknowledged: safeInteger,
    /** Whether drift was acknowledged, also if that is 0 units now. */
    isAcknowledged: z.boolean(),
    lastDeliveredAt: z.date().nullable(),
    sending: z.array(sendingEvent),
    /** Whether usage is unfinished, or in no event yet. */
    isPending: z.boolean(),
    deliveredEventIds: z.array(z.string()),
    /** Events that have failed since drift was acknowledged. */
    failedSinceIds: z.array(z.string()),
    /** It changes whenever an event or the acknowledged drift does. */
    version: z.string(),
  })
  .transform((row) => ({
    ...row,
    /** The units that the processor must have. */
    explained: row.delivered + row.acknowledged,
  }));

/** A stream's usage in one minute. */
export type MinuteUsage = Readonly<z.output<typeof minuteRow>>;

/**
 * Reads our side of a minute of a customer, whichever account it belonged to.
 * @param minute a half-open span of unix seconds
 * @param without events that are left out, because the processor's sum is to decide about them
 */
export const readMinuteUsage = (
  db: CommonQueryMethods,
  stream: CustomerStream,
  minute: Span,
  without: readonly bigint[] = [],
): Promise<MinuteUsage> =>
  db.one(sql.type(minuteRow)`
    SELECT
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS delivered,
      acknowledged.units AS acknowledged,
      acknowledged.is_given AS "isAcknowledged",
      max(settled_at) FILTER (WHERE state = 'delivered') AS "lastDeliveredAt",
      coalesce(
        jsonb_agg(
          jsonb_build_object(
            'id', meter_event.id::text,
            'processor', processor,
            'second', second,
            'firstAttemptAt', first_attempt_at,
            'outcomeUnknown', outcome_unknown,
            'inDoubtSince', in_doubt_since
          )
        ) FILTER (WHERE state = 'sending'),
        '[]'
      ) AS sending,
      coalesce(bool_or(state IN (${UNFINISHED})), false)
      OR EXISTS (
        SELECT
        FROM usage_fact
        WHERE account_id = ANY(${sql.array([...stream.accountIds], "uuid")})
          AND mode = ${stream.mode}
          AND kind = ${stream.kind}
          AND meter_event_id IS NULL
          AND second >= ${minute.start}
          AND second < ${minute.end}
      ) AS "isPending",
      coalesce(array_agg(meter_event.id::text) FILTER (WHERE state = 'delivered'), '{}') AS "deliveredEventIds",
      coalesce(
        array_agg(meter_event.id::text ORDER BY meter_event.id)
          FILTER (WHERE ${failedSinceAcknowledged(stream, minute)}),
        '{}'
      ) AS "failedSinceIds",
      concat(string_agg(id || state || attempts, ' ' ORDER BY id), ' acknowledged: ', acknowledged.units,
        acknowledged.is_given) AS version
    FROM (${acknowledgedUnits(stream, minute)}) AS acknowledged
    LEFT JOIN meter_event
      ON ${isOfStream(stream)}
      AND second >= ${minute.start}
      AND second < ${minute.end}
      AND id <> ALL(${sql.array([...without], "int8")})
    GROUP BY acknowledged.units, acknowledged.is_given
  `);

const minuteEventRow = z.strictObject({
  id: safeInteger,
  accountId: z.uuid(),
  state: z.enum(METER_EVENT_STATES),
  second: safeInteger,
  quantity: safeInteger,
  /** Whether it counted as delivered when drift of its minute was acknowledged. */
  failedSinceAcknowledged: z.boolean(),
  /** Whether it can be sent again: its facts are in no later event, and no document bills it. */
  isReopenable: z.boolean(),
  registrationIds: z.array(z.uuid()),
});

/** A meter event of a minute, with the first of the registrations that it bills. */
export type MinuteEvent = Readonly<z.output<typeof minuteEventRow>>;

/** Enough to start with. `usage list` and `usage show` have the rest. */
const MAXIMUM_EVENTS = 20;
const MAXIMUM_REGISTRATIONS = 5;

/** Lists a stream's first meter events of a span, in order. */
export const listMinuteEvents = (
  db: CommonQueryMethods,
  stream: ReportedStream,
  span: Span,
): Promise<readonly MinuteEvent[]> =>
  db.any(sql.type(minuteEventRow)`
    SELECT
      meter_event.id,
      meter_event.account_id AS "accountId",
      meter_event.state,
      meter_event.second,
      meter_event.quantity,
      ${failedSinceAcknowledged(stream, span)} AS "failedSinceAcknowledged",
      meter_event.state = 'delivered'
        AND settlement_reference IS NULL
        AND EXISTS (SELECT FROM usage_fact WHERE meter_event_id = meter_event.id) AS "isReopenable",
      ARRAY(
        SELECT id
        FROM (${registrationsOfEvent}) AS counted
        ORDER BY id
        LIMIT ${MAXIMUM_REGISTRATIONS}
      ) AS "registrationIds"
    FROM meter_event
    WHERE ${isOfStream(stream)} AND second >= ${span.start} AND second < ${span.end}
    ORDER BY meter_event.second, meter_event.id
    LIMIT ${MAXIMUM_EVENTS}
  `);
