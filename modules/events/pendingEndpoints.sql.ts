import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { LEASE_MS } from "./decideDelivery.rules.ts";
import { isLeaseFree } from "../../db/leases.ts";
import type { Lease } from "../../db/leases.ts";
import { sql, timestamp } from "../../db/sql.ts";

/** The condition of an endpoint that receives deliveries. */
export const isEnabled = sql.fragment`
  webhook_endpoint.disabled_at IS NULL AND webhook_endpoint.deleted_at IS NULL
`;

/**
 * Defines the query `waiting`: the endpoints that have pending deliveries, in the order of their ids. It steps through the
 * index of these from endpoint to endpoint, so its cost grows neither with the number of all endpoints nor with that of the
 * deliveries.
 */
export const waitingEndpoints = (after: string | null = null): FragmentSqlToken => sql.fragment`
  waiting AS (
    (
      SELECT endpoint_id
      FROM webhook_delivery
      WHERE state = 'pending'
        ${after === null ? sql.fragment`` : sql.fragment`AND endpoint_id > ${after}`}
      -- With the second column, only the index of pending deliveries is in this order.
      ORDER BY endpoint_id, due_at
      LIMIT 1
    )
    UNION ALL
    SELECT following.endpoint_id
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT endpoint_id
      FROM webhook_delivery
      WHERE state = 'pending' AND endpoint_id > waiting.endpoint_id
      ORDER BY endpoint_id, due_at
      LIMIT 1
    ) AS following
  )`;

/**
 * Defines the query `pending_endpoint`: the enabled endpoints that have pending deliveries, in the order of their ids.
 * @param after where it begins; null: with the first one
 */
export const pendingEndpoints = (after: string | null = null): FragmentSqlToken => sql.fragment`
  ${waitingEndpoints(after)},
  pending_endpoint AS (
    SELECT webhook_endpoint.id, webhook_endpoint.url, webhook_endpoint.failing_since
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT id, url, failing_since
      FROM webhook_endpoint
      WHERE id = waiting.endpoint_id AND ${isEnabled}
      OFFSET 0
    ) AS webhook_endpoint
  )`;

/** The lease of attempts that begin at a time. */
export const deliveryLease = (now: Date): Lease => ({
  now,
  until: new Date(now.getTime() + LEASE_MS),
});

/** The condition of a delivery whose attempt is due and that no worker is making. */
export const isDue = (now: Date): FragmentSqlToken => sql.fragment`
  webhook_delivery.state = 'pending'
  AND webhook_delivery.due_at <= ${timestamp(now)}
  AND ${isLeaseFree(sql.fragment`webhook_delivery.leased_until`, deliveryLease(now))}
`;

const dueRow = z.strictObject({ id: z.uuid(), isFailing: z.boolean() });

/** An endpoint with due deliveries. */
export type DueEndpoint = Readonly<z.output<typeof dueRow>>;

/**
 * Lists endpoints that have due deliveries, in the order of their ids.
 * @param after the last endpoint of the page before; null for the first page
 */
export const listDueEndpoints = (
  db: CommonQueryMethods,
  {
    after,
    now,
    limit,
  }: { readonly after: string | null; readonly now: Date; readonly limit: number },
): Promise<readonly DueEndpoint[]> =>
  db.any(sql.type(dueRow)`
    WITH RECURSIVE ${pendingEndpoints(after)}
    SELECT pending_endpoint.id, pending_endpoint.failing_since IS NOT NULL AS "isFailing"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT
      FROM webhook_delivery
      WHERE webhook_delivery.endpoint_id = pending_endpoint.id AND ${isDue(now)}
      ORDER BY webhook_delivery.due_at
      LIMIT 1
    ) AS due
    LIMIT ${limit}
  `);
