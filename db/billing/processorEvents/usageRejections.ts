import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { RejectionReport } from "../../../domain/billing/processorEvents.ts";
import { safeInteger } from "../../columns.ts";
import { sql, timestamp } from "../../sql.ts";

/** Stores what a report says about one error code. A repeated call changes nothing. */
export const insertUsageRejection = async (
  db: CommonQueryMethods,
  processorEventId: string,
  { windowStart, windowEnd }: RejectionReport,
  rejection: { readonly code: string; readonly errors: number; readonly named: number },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_rejection (processor_event_id, code, errors, named, window_start, window_end)
    VALUES (
      ${processorEventId}, ${rejection.code}, ${rejection.errors}, ${rejection.named}, ${timestamp(windowStart)},
      ${timestamp(windowEnd)}
    )
    ON CONFLICT (processor_event_id, code) DO NOTHING
  `);
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
