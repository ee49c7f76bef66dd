import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { DELIVERY_STATES } from "./decideDelivery.rules.ts";
import type { DeliveryState } from "./decideDelivery.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";

const deliveryRow = z.strictObject({
  transactionId: z.string().transform(BigInt),
  /** The second part of the event's id. */
  id: z.uuid(),
  // Another release may have recorded it.
  type: z.string(),
  occurredAt: z.date(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.int(),
  createdAt: z.date(),
  dueAt: z.date().nullable(),
});

/** A delivery as its owner sees it. */
export type Delivery = Readonly<z.output<typeof deliveryRow>>;

const columns = sql.fragment`
  webhook_delivery.transaction_id::text AS "transactionId",
  webhook_delivery.event_id AS id,
  webhook_delivery.type,
  webhook_delivery.occurred_at AS "occurredAt",
  webhook_delivery.state,
  webhook_delivery.attempts,
  webhook_delivery.created_at AS "createdAt",
  webhook_delivery.due_at AS "dueAt"
`;

type Page = {
  /** The last delivery of the previous page. */
  readonly after: Pick<Delivery, "createdAt" | "id"> | null;
  readonly limit: number;
};

const page = (
  endpointId: FragmentSqlToken,
  condition: FragmentSqlToken,
  { after, limit }: Page,
): FragmentSqlToken => sql.fragment`
  SELECT *
  FROM webhook_delivery
  WHERE endpoint_id = ${endpointId}
    AND ${condition}
    ${
      after === null
        ? sql.fragment``
        : sql.fragment`AND (created_at, event_id) < (${timestamp(after.createdAt)}, ${after.id}::uuid)`
    }
  ORDER BY created_at DESC, event_id DESC
  LIMIT ${limit}
`;

/** Returns the query of deliveries whose last attempt failed, newest first. Each part of it is read in its own index. */
export const failedDeliveries = (endpointId: FragmentSqlToken, given: Page): FragmentSqlToken =>
  sql.fragment`
    SELECT *
    FROM (
      (${page(endpointId, sql.fragment`state = 'failed'`, given)})
      UNION ALL
      (${page(endpointId, sql.fragment`state = 'pending' AND attempts > earlier_attempts`, given)})
    ) AS webhook_delivery
    ORDER BY created_at DESC, event_id DESC
    LIMIT ${given.limit}
  `;

/**
 * Lists deliveries of an endpoint, newest first.
 * @param filter.state null for all; `failed` finds also those that are pending after a failed attempt
 */
export const listDeliveries = (
  db: CommonQueryMethods,
  endpointId: string,
  { state, ...given }: Page & { readonly state: DeliveryState | null },
): Promise<readonly Delivery[]> => {
  const id = sql.fragment`${endpointId}`;
  const condition = state === null ? sql.fragment`true` : sql.fragment`state = ${state}`;
  return db.any(sql.type(deliveryRow)`
    SELECT ${columns}
    FROM (${state === "failed" ? failedDeliveries(id, given) : page(id, condition, given)}) AS webhook_delivery
    ORDER BY webhook_delivery.created_at DESC, webhook_delivery.event_id DESC
  `);
};

export const findDelivery = (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<Delivery | null> =>
  db.maybeOne(sql.type(deliveryRow)`
    SELECT ${columns}
    FROM webhook_delivery
    WHERE webhook_delivery.endpoint_id = ${endpointId} AND webhook_delivery.event_id = ${id}
  `);

const attemptRow = z.strictObject({
  number: z.int(),
  startedAt: z.date(),
  durationMs: z.int(),
  status: z.int().nullable(),
  error: z.string().nullable(),
  response: z.string().nullable(),
});
export type DeliveryAttempt = Readonly<z.output<typeof attemptRow>>;

/** Lists the attempts of a delivery that are kept, oldest first. */
export const listAttempts = (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<readonly DeliveryAttempt[]> =>
  db.any(sql.type(attemptRow)`
    SELECT
      number,
      started_at AS "startedAt",
      duration_ms AS "durationMs",
      status,
      error,
      response
    FROM webhook_attempt
    WHERE endpoint_id = ${endpointId} AND event_id = ${id}
    ORDER BY number
  `);
