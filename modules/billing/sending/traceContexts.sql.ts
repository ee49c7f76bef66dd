import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { TraceParent } from "../../../runtime/tracing.rules.ts";
import { countDeleted, deletedRow, startingAt } from "../../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../../db/batching/deleteInBatches.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { countedRegistrations } from "../registrationFacts.sql.ts";

/** Records which request made a registration or a refund. */
export const insertTraceContexts = async (
  db: CommonQueryMethods,
  contexts: readonly { readonly recordId: string; readonly traceParent: TraceParent }[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO trace_context (record_id, traceparent)
    SELECT *
    FROM ${sql.unnest(
      contexts.map(({ recordId, traceParent }) => [recordId, traceParent]),
      ["uuid", "text"],
    )}
    ON CONFLICT (record_id) DO NOTHING
  `);
};

const traceContextRow = z.strictObject({ traceParent: z.string() });

/** Returns the requests that made the registrations and refunds of a meter event. */
export const listTraceParents = (
  db: CommonQueryMethods,
  meterEventId: bigint,
  limit: number,
): Promise<readonly TraceParent[]> =>
  db.anyFirst(sql.type(traceContextRow)`
    SELECT DISTINCT trace_context.traceparent AS "traceParent"
    FROM meter_event
    CROSS JOIN LATERAL (
      ${countedRegistrations}
      UNION ALL
      SELECT usage_fact.refund_id
      FROM usage_fact
      WHERE usage_fact.meter_event_id = meter_event.id AND usage_fact.refund_id IS NOT NULL
    ) AS record
    JOIN trace_context ON trace_context.record_id = record.id
    WHERE meter_event.id = ${meterEventId}
    LIMIT ${limit}
  `);

/**
 * Deletes the oldest rows that were recorded before a time.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteOldTraceContexts = (
  db: CommonQueryMethods,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM trace_context
      WHERE ctid = ANY(ARRAY(
        SELECT ctid
        FROM trace_context
        WHERE recorded_at >= ${startingAt(from)} AND recorded_at < ${timestamp(before)}
        ORDER BY recorded_at
        LIMIT ${limit}
      ))
      RETURNING recorded_at AS time
    )
    ${countDeleted}
  `);
