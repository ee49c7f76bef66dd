import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn, processorColumn, safeInteger } from "../../columns.ts";
import { sql, timestamp } from "../../sql.ts";
import type { ReportedStream } from "./reportedStreams.ts";
import type { Span } from "../../../domain/billing/usage.ts";

const acknowledgedRow = z.strictObject({
  processor: processorColumn,
  mode: modeColumn,
  meter: kindColumn,
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
  meter,
  customer,
}: Pick<AcknowledgedDrift, "processor" | "mode" | "meter" | "customer">): string =>
  `${processor}/${mode}/${meter}/${customer}`;

type Stream = Omit<ReportedStream, "accountName">;

const acknowledgedOfStream = (stream: Stream, { start, end }: Span): FragmentSqlToken =>
  sql.fragment`
    FROM acknowledged_drift
    WHERE processor = ${stream.processor}
      AND mode = ${stream.mode}
      AND meter = ${stream.meter}
      AND customer = ${customerOf(stream)}
      AND minute >= ${start}
      AND minute < ${end}
  `;

/** A query of one row: the units that were acknowledged of a stream in a span. */
export const acknowledgedUnits = (stream: Stream, span: Span): FragmentSqlToken => sql.fragment`
  SELECT coalesce(sum(units), 0)::bigint AS units
  ${acknowledgedOfStream(stream, span)}
`;

export const isDriftAcknowledged = (
  db: CommonQueryMethods,
  stream: Stream,
  span: Span,
): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT
    ${acknowledgedOfStream(stream, span)}
  `);

/**
 * Reads what was acknowledged in a half-open span of unix seconds.
 * @returns a function that returns the acknowledgements of a stream
 */
export const readAcknowledgedDrift = async (
  db: CommonQueryMethods,
  span: Span,
): Promise<(stream: ReportedStream) => readonly AcknowledgedDrift[]> => {
  const acknowledged = await db.any(sql.type(acknowledgedRow)`
    SELECT processor, mode, meter, customer, minute, units
    FROM acknowledged_drift
    WHERE minute >= ${span.start} AND minute < ${span.end}
  `);
  const byStream = Map.groupBy(acknowledged, keyOf);
  return (stream) => byStream.get(keyOf({ ...stream, customer: customerOf(stream) })) ?? [];
};

/** Stores the acknowledgement. It replaces that of another difference of the same minute. */
export const saveAcknowledgedDrift = async (
  db: CommonQueryMethods,
  { processor, mode, meter, customer, minute, units }: AcknowledgedDrift,
  note: { readonly reason: string; readonly operator: string; readonly now: Date },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO acknowledged_drift
      (processor, mode, meter, customer, minute, units, reason, acknowledged_by, acknowledged_at)
    VALUES (
      ${processor}, ${mode}, ${meter}, ${customer}, ${minute}, ${units}, ${note.reason}, ${note.operator},
      ${timestamp(note.now)}
    )
    ON CONFLICT (processor, mode, meter, customer, minute) DO UPDATE
    SET
      units = excluded.units,
      reason = excluded.reason,
      acknowledged_by = excluded.acknowledged_by,
      acknowledged_at = excluded.acknowledged_at
  `);
};
