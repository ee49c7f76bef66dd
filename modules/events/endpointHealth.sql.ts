import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";

const disabledRow = z.strictObject({
  id: z.uuid(),
  url: z.string(),
  disabledAt: z.date(),
  /** How many endpoints were disabled because of their responses. */
  count: safeInteger,
});

/** Finds the endpoint that was the last to be disabled because of its responses, and not by request. */
export const findLastDisabled = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof disabledRow>> | null> =>
  db.maybeOne(sql.type(disabledRow)`
    SELECT id, url, disabled_at AS "disabledAt", count(*) OVER () AS count
    FROM webhook_endpoint
    WHERE disabled_reason IN ('gone', 'failing')
    ORDER BY disabled_at DESC, id
    LIMIT 1
  `);

const oldestRow = z.strictObject({ id: z.uuid(), url: z.string(), createdAt: z.date() });

/** Finds the enabled endpoint that waits for the oldest undelivered delivery. */
export const findOldestDelivery = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof oldestRow>> | null> =>
  db.maybeOne(sql.type(oldestRow)`
    SELECT webhook_endpoint.id, webhook_endpoint.url, webhook_delivery.created_at AS "createdAt"
    FROM webhook_delivery
    JOIN webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
    WHERE webhook_delivery.state = 'pending' AND webhook_endpoint.disabled_at IS NULL
    ORDER BY webhook_delivery.created_at, webhook_endpoint.id
    LIMIT 1
  `);

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
