import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isLeaseFree } from "../../db/leases.ts";
import { deliveryLease, pendingEndpoints } from "./pendingEndpoints.sql.ts";

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
    WHERE deleted_at IS NULL
  `);
  const dueAt = await db.oneFirst(sql.type(unattendedRow)`
    WITH RECURSIVE ${pendingEndpoints()}
    SELECT min(oldest.due_at) AS "dueAt"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT min(due_at) AS due_at, bool_and(is_free) AS is_free
      FROM (
        SELECT due_at, ${isLeaseFree(sql.fragment`leased_until`, deliveryLease(now))} AS is_free
        FROM webhook_delivery
        WHERE endpoint_id = pending_endpoint.id AND state = 'pending' AND due_at <= ${timestamp(now)}
        ORDER BY due_at, transaction_id, event_id
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
