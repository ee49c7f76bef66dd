import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isUnleased, pendingEndpoints } from "./deliveries.sql.ts";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";

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
    WHERE disabled_reason IN ('gone', 'failing')
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

const stateRow = z.strictObject({
  enabled: safeInteger,
  failing: safeInteger,
  requested: safeInteger,
  gone: safeInteger,
  failingForDays: safeInteger,
});

const unattendedRow = z.strictObject({ dueAt: z.date().nullable() });

/** The deployment's endpoints by state, and how long a due delivery waits that no worker attends to. */
export type WebhookState = {
  readonly endpoints: Readonly<
    Record<"enabled" | "failing" | "requested" | "gone" | "failing_for_days", number>
  >;
  readonly unattendedSeconds: number;
};

/**
 * Returns the state of the deployment's webhooks. A due delivery of an endpoint that is being called waits for the
 * receiver; that of another one waits for a worker, unless it is failing: many servers that do not respond wait for each
 * other. An endpoint is being called if one of the deliveries that are due first is leased, because these are claimed first.
 */
export const readWebhookState = async (
  db: CommonQueryMethods,
  now: Date,
): Promise<WebhookState> => {
  const { failingForDays, ...counts } = await db.one(sql.type(stateRow)`
    SELECT
      count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NULL) AS enabled,
      count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
      count(*) FILTER (WHERE disabled_reason = 'requested') AS requested,
      count(*) FILTER (WHERE disabled_reason = 'gone') AS gone,
      count(*) FILTER (WHERE disabled_reason = 'failing') AS "failingForDays"
    FROM webhook_endpoint
  `);
  const dueAt = await db.oneFirst(sql.type(unattendedRow)`
    WITH RECURSIVE ${pendingEndpoints()}
    SELECT min(oldest.due_at) AS "dueAt"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT min(due_at) AS due_at, bool_and(is_free) AS is_free
      FROM (
        SELECT due_at, ${isUnleased(now)} AS is_free
        FROM webhook_delivery
        WHERE endpoint_id = pending_endpoint.id AND state = 'pending' AND due_at <= ${timestamp(now)}
        ORDER BY due_at, event_id
        LIMIT ${PLACES_OF_ENDPOINT}
      ) AS due
    ) AS oldest
    WHERE pending_endpoint.failing_since IS NULL AND oldest.is_free
  `);
  return {
    endpoints: { ...counts, failing_for_days: failingForDays },
    unattendedSeconds: dueAt === null ? 0 : (now.getTime() - dueAt.getTime()) / 1000,
  };
};
