import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { DELIVERY_STATES } from "../../domain/webhooks/decideDelivery.ts";
import type { DeliveryState } from "../../domain/webhooks/decideDelivery.ts";
import { sql, timestamp } from "../sql.ts";

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

/** Lists deliveries of an endpoint, newest first. */
export const listDeliveries = (
  db: CommonQueryMethods,
  endpointId: string,
  {
    state,
    after,
    limit,
  }: {
    readonly state: DeliveryState | null;
    /** The last delivery of the previous page. */
    readonly after: Pick<Delivery, "createdAt" | "id"> | null;
    readonly limit: number;
  },
): Promise<readonly Delivery[]> =>
  db.any(sql.type(deliveryRow)`
    SELECT ${columns}
    FROM webhook_delivery
    WHERE webhook_delivery.endpoint_id = ${endpointId}
      ${state === null ? sql.fragment`` : sql.fragment`AND webhook_delivery.state = ${state}`}
      ${
        after === null
          ? sql.fragment``
          : sql.fragment`
            AND (webhook_delivery.created_at, webhook_delivery.event_id)
              < (${timestamp(after.createdAt)}, ${after.id}::uuid)
          `
      }
    ORDER BY webhook_delivery.created_at DESC, webhook_delivery.event_id DESC
    LIMIT ${limit}
  `);

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
