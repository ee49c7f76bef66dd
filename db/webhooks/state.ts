import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger } from "../columns.ts";
import { isLeaseFree } from "../leases.ts";
import { sql, timestamp } from "../sql.ts";
import { deliveryLease, pendingEndpoints } from "./deliveries.ts";

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
 * other.
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
    SELECT min(pending.due_at) AS "dueAt"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT oldest.due_at
      FROM webhook_delivery AS oldest
      WHERE oldest.endpoint_id = pending_endpoint.id
        AND oldest.state = 'pending'
        AND oldest.due_at <= ${timestamp(now)}
      ORDER BY oldest.due_at
      LIMIT 1
    ) AS pending
    WHERE pending_endpoint.failing_since IS NULL AND NOT EXISTS (
      SELECT
      FROM webhook_delivery AS calling
      WHERE calling.endpoint_id = pending_endpoint.id
        AND calling.state = 'pending'
        AND calling.due_at <= ${timestamp(now)}
        AND NOT ${isLeaseFree(sql.fragment`calling.leased_until`, deliveryLease(now))}
    )
  `);
  return {
    endpoints: { ...counts, failing_for_days: failingForDays },
    unattendedSeconds: dueAt === null ? 0 : (now.getTime() - dueAt.getTime()) / 1000,
  };
};
