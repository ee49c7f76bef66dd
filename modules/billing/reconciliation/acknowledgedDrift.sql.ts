import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "../usage.rules.ts";
import { kindColumn, modeColumn } from "../../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { FAILED } from "../meterEvents.sql.ts";
import type { CustomerStream, ReportedStream } from "./reportedStreams.sql.ts";
import type { Span } from "../usage.rules.ts";

const acknowledgedRow = z.strictObject({
  processor: z.enum(PROCESSORS),
  mode: modeColumn,
  kind: kindColumn,
  customer: z.string(),
  minute: safeInteger,
  units: safeInteger,
});

/** A minute's difference that an operator has explained: the processor's units minus the delivered ones. */
export type AcknowledgedDrift = Readonly<z.output<typeof acknowledgedRow>>;

/** Returns the processor's customer, or the account's id where the processor has no customer. */
export const customerOf = ({
  customerId,
  accountIds,
}: Pick<ReportedStream, "customerId" | "accountIds">): string => customerId ?? accountIds[0];

const keyOf = ({
  processor,
  mode,
  kind,
  customer,
}: Pick<AcknowledgedDrift, "processor" | "mode" | "kind" | "customer">): string =>
  `${processor}/${mode}/${kind}/${customer}`;

const acknowledgedOfStream = (stream: CustomerStream, { start, end }: Span): FragmentSqlToken =>
  sql.fragment`
    FROM acknowledged_drift
    WHERE processor = ${stream.processor}
      AND mode = ${stream.mode}
      AND kind = ${stream.kind}
      AND customer = ${customerOf(stream)}
      AND minute >= ${start}
      AND minute < ${end}
  `;

/** A query of one row: the units that were acknowledged of a stream in a span, and whether any were, which may be 0. */
export const acknowledgedUnits = (
  stream: CustomerStream,
  span: Span,
): FragmentSqlToken => sql.fragment`
  SELECT coalesce(sum(units), 0)::bigint AS units, count(*) > 0 AS is_given
  ${acknowledgedOfStream(stream, span)}
`;

export const isDriftAcknowledged = (
  db: CommonQueryMethods,
  stream: CustomerStream,
  span: Span,
): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT
    ${acknowledgedOfStream(stream, span)}
  `);

/**
 * Whether a meter event has failed although it counted as delivered when drift of its minute was acknowledged. The drift may
 * be its usage, which an operator has billed by hand. So only a retry, which reads the processor's sums, may decide about it.
 */
export const failedSinceAcknowledged = (stream: CustomerStream, minute: Span): FragmentSqlToken =>
  sql.fragment`(
    meter_event.state IN (${FAILED})
    AND EXISTS (SELECT ${acknowledgedOfStream(stream, minute)} AND meter_event.id = ANY(meter_event_ids))
  )`;

/**
 * Reads what was acknowledged in a half-open span of unix seconds.
 * @returns a function that returns the acknowledgements of a stream
 */
export const readAcknowledgedDrift = async (
  db: CommonQueryMethods,
  span: Span,
): Promise<(stream: ReportedStream) => readonly AcknowledgedDrift[]> => {
  const acknowledged = await db.any(sql.type(acknowledgedRow)`
    SELECT processor, mode, kind, customer, minute, units
    FROM acknowledged_drift
    WHERE minute >= ${span.start} AND minute < ${span.end}
  `);
  const byStream = Map.groupBy(acknowledged, keyOf);
  return (stream) => byStream.get(keyOf({ ...stream, customer: customerOf(stream) })) ?? [];
};

/**
 * Stores the acknowledgement. It replaces that of an earlier difference of the same minute.
 * @param note.deliveredEventIds the events of the minute that count as delivered
 * @param note.comparedAt when the difference was read
 * @returns false if another difference of the minute was acknowledged since
 */
export const saveAcknowledgedDrift = async (
  db: CommonQueryMethods,
  { processor, mode, kind, customer, minute, units }: AcknowledgedDrift,
  note: {
    readonly deliveredEventIds: readonly string[];
    readonly reason: string;
    readonly operator: string;
    readonly comparedAt: Date;
    readonly now: Date;
  },
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO acknowledged_drift
      (
        processor, mode, kind, customer, minute, units, meter_event_ids, reason, acknowledged_by, acknowledged_at
      )
    VALUES (
      ${processor}, ${mode}, ${kind}, ${customer}, ${minute}, ${units},
      ${sql.array([...note.deliveredEventIds], "int8")}, ${note.reason}, ${note.operator}, ${timestamp(note.now)}
    )
    ON CONFLICT (processor, mode, kind, customer, minute) DO UPDATE
    SET
      units = excluded.units,
      meter_event_ids = excluded.meter_event_ids,
      reason = excluded.reason,
      acknowledged_by = excluded.acknowledged_by,
      acknowledged_at = excluded.acknowledged_at
    WHERE acknowledged_drift.acknowledged_at <= ${timestamp(note.comparedAt)}
      OR acknowledged_drift.units = excluded.units
  `);
  return rowCount > 0;
};
