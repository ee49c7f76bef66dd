import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";

const stateRow = z.strictObject({ state: z.string(), count: safeInteger });

/** The states of endpoints that are counted: enabled ones, and why the others are disabled. */
export const ENDPOINT_STATES = ["enabled", "failing", "requested", "gone", "failing_for_days"];

/** Counts the deployment's endpoints by state. */
export const countEndpointStates = async (
  db: CommonQueryMethods,
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.any(sql.type(stateRow)`
    SELECT
      CASE
        WHEN disabled_reason = 'failing' THEN 'failing_for_days'
        WHEN disabled_at IS NOT NULL THEN disabled_reason
        WHEN failing_since IS NOT NULL THEN 'failing'
        ELSE 'enabled'
      END AS state,
      count(*) AS count
    FROM webhook_endpoint
    GROUP BY 1
  `);
  return new Map(rows.map(({ state, count }) => [state, count]));
};
