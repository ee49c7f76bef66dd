import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { RejectionReport } from "./processorEvents.rules.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";

/** Stores what a report says about one error code. A repeated call changes only which events are left. */
export const saveUsageRejection = async (
  db: CommonQueryMethods,
  processorEventId: string,
  { windowStart, windowEnd }: RejectionReport,
  rejection: {
    readonly code: string;
    readonly errors: number;
    readonly named: number;
    /** The named meter events to which the report could not be applied yet. */
    readonly leftEventIds: readonly bigint[];
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_rejection
      (processor_event_id, code, errors, named, left_event_ids, window_start, window_end)
    VALUES (
      ${processorEventId}, ${rejection.code}, ${rejection.errors}, ${rejection.named},
      ${sql.array([...rejection.leftEventIds], "int8")}, ${timestamp(windowStart)}, ${timestamp(windowEnd)}
    )
    ON CONFLICT (processor_event_id, code) DO UPDATE
    SET left_event_ids = excluded.left_event_ids
  `);
};

const leftRow = z.strictObject({ ids: z.array(z.string()) });

/** Returns the meter events to which an earlier attempt could not apply a report; null if it was not applied before. */
export const findLeftEventIds = async (
  db: CommonQueryMethods,
  processorEventId: string,
  code: string,
): Promise<ReadonlySet<bigint> | null> => {
  const ids = await db.maybeOneFirst(sql.type(leftRow)`
    SELECT left_event_ids::text[] AS ids
    FROM usage_rejection
    WHERE processor_event_id = ${processorEventId} AND code = ${code}
  `);
  return ids && new Set(ids.map(BigInt));
};

const unnamedRow = z.strictObject({
  code: z.string(),
  unnamed: safeInteger,
  windowStart: z.date(),
  windowEnd: z.date(),
});

/** Refused events that no sample named: how many, and when the processor received them. */
export type UnnamedRejections = Readonly<z.output<typeof unnamedRow>>;

/** Lists rejections of which the processor did not name every event, for usage received after a time, the latest first. */
export const listUnnamedRejections = (
  db: CommonQueryMethods,
  after: Date,
  limit: number,
): Promise<readonly UnnamedRejections[]> =>
  db.any(sql.type(unnamedRow)`
    SELECT
      code,
      errors - named AS unnamed,
      window_start AS "windowStart",
      window_end AS "windowEnd"
    FROM usage_rejection
    WHERE errors > named AND window_end > ${timestamp(after)}
    ORDER BY window_end DESC
    LIMIT ${limit}
  `);
