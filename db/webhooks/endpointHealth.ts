import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger } from "../columns.ts";
import { sql, timestamp } from "../sql.ts";
import { pendingEndpoints } from "./pendingEndpoints.ts";

/** The most endpoints that are reported to the operator: one broken server may have many. */
const MAXIMUM_ROWS = 1000;

const disabledRow = z.strictObject({ id: z.uuid(), url: z.string(), disabledAt: z.date() });

/** Lists endpoints that were disabled because of their responses, and not by request, the latest first. */
export const listEndpointsDisabledByFailure = (
  db: CommonQueryMethods,
): Promise<readonly Readonly<z.output<typeof disabledRow>>[]> =>
  db.any(sql.type(disabledRow)`
    SELECT id, url, disabled_at AS "disabledAt"
    FROM webhook_endpoint
    WHERE disabled_reason IN ('gone', 'failing') AND deleted_at IS NULL
    ORDER BY disabled_at DESC, id
    LIMIT ${MAXIMUM_ROWS}
  `);

const backlogRow = z.strictObject({
  id: z.uuid(),
  url: z.string(),
  pending: safeInteger,
  oldestAt: z.date(),
  /** Deliveries that were recorded since the given time, and those of them that are pending. */
  recent: safeInteger,
  recentPending: safeInteger,
});

/** The pending deliveries of an endpoint. */
export type EndpointBacklog = Readonly<z.output<typeof backlogRow>>;

/** Lists enabled endpoints that have pending deliveries, the one with the oldest delivery first. */
export const listEndpointBacklogs = (
  db: CommonQueryMethods,
  since: Date,
): Promise<readonly EndpointBacklog[]> =>
  db.any(sql.type(backlogRow)`
    WITH RECURSIVE ${pendingEndpoints()}
    SELECT
      pending_endpoint.id,
      pending_endpoint.url,
      backlog.pending,
      backlog.oldest_at AS "oldestAt",
      recent.recorded AS recent,
      recent.pending AS "recentPending"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT count(*) AS pending, min(created_at) AS oldest_at
      FROM webhook_delivery
      WHERE endpoint_id = pending_endpoint.id AND state = 'pending'
    ) AS backlog
    CROSS JOIN LATERAL (
      SELECT count(*) AS recorded, count(*) FILTER (WHERE state = 'pending') AS pending
      FROM webhook_delivery
      WHERE endpoint_id = pending_endpoint.id AND created_at >= ${timestamp(since)}
    ) AS recent
    ORDER BY backlog.oldest_at, pending_endpoint.id
    LIMIT ${MAXIMUM_ROWS}
  `);
