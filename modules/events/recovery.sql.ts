import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { FeedPosition } from "./events.rules.ts";
import { WEBHOOK_TYPES, webhookFieldsOf } from "./webhooks.rules.ts";
import { MAXIMUM_RETRY_DELAY_MS } from "./decideDelivery.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isLeaseFree } from "../../db/leases.ts";
import { deliveryLease, pendingEndpoints } from "./pendingEndpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";

const missedRow = z.strictObject({
  found: safeInteger,
  transactionId: z.string().nullable(),
  id: z.uuid().nullable(),
});

type RecoveryOptions = {
  readonly since: Date;
  readonly after: FeedPosition;
  readonly limit: number;
  readonly now: Date;
};

/** A query of the events to recover, oldest first, and of one more than the limit. */
const missedEvents = (
  { id, accountId, mode, types }: WebhookEndpoint,
  { since, after, limit, now }: RecoveryOptions,
): FragmentSqlToken => {
  const afterTransaction = sql.fragment`${String(after.transactionId)}::xid8`;
  return sql.fragment`
    SELECT candidate.*
    FROM unnest(${sql.array([...new Set(types ?? WEBHOOK_TYPES)], "text")}) AS wanted (type)
    CROSS JOIN LATERAL (
      SELECT event.transaction_id, event.id, event.type, event.created_at, event.data
      FROM event
      WHERE event.account_id = ${accountId}
        AND event.mode = ${mode}
        AND event.type = wanted.type
        AND event.transaction_id >= ${afterTransaction}
        AND (event.transaction_id, event.id) > (${afterTransaction}, ${after.id}::uuid)
        AND event.created_at >= ${timestamp(since)}
        AND NOT EXISTS (
          SELECT
          FROM webhook_delivery
          WHERE webhook_delivery.endpoint_id = ${id}
            AND webhook_delivery.event_id = event.id
            AND (webhook_delivery.state = 'delivered' OR webhook_delivery.due_at <= ${timestamp(now)})
          OFFSET 0
        )
      ORDER BY event.transaction_id, event.id
      LIMIT ${limit + 1}
    ) AS candidate
    ORDER BY candidate.transaction_id, candidate.id
    LIMIT ${limit + 1}
  `;
};

/**
 * Makes deliveries due of the events since a time that follow a position, that an endpoint wants, and that are neither
 * delivered to it nor due, oldest first. The schedule of those that had failed or wait begins again. The database selects what
 * webhooks send, because the whole events can be many megabytes. Of each type it reads in the feed's order and stops at the
 * limit.
 * @returns how many such events there are, where counting ends at one more than the limit, and the last one that was made due
 */
export const insertMissedDeliveries = async (
  db: CommonQueryMethods,
  endpoint: WebhookEndpoint,
  options: RecoveryOptions,
): Promise<{ readonly found: number; readonly last: FeedPosition | null }> => {
  const sent = WEBHOOK_TYPES.flatMap((type) => webhookFieldsOf(type).map((name) => [type, name]));
  const time = timestamp(options.now);
  const {
    found,
    transactionId,
    id: lastId,
  } = await db.one(sql.type(missedRow)`
    WITH missed AS MATERIALIZED (
      ${missedEvents(endpoint, options)}
    ),
    recovered AS MATERIALIZED (
      SELECT *
      FROM missed
      ORDER BY transaction_id, id
      LIMIT ${options.limit}
    ),
    inserted_delivery AS (
      INSERT INTO webhook_delivery (
        endpoint_id, event_id, transaction_id, type, occurred_at, data, created_at, due_at
      )
      SELECT
        ${endpoint.id},
        recovered.id,
        recovered.transaction_id,
        recovered.type,
        recovered.created_at,
        (
          SELECT json_object_agg(field.name, field.value ORDER BY field.place)
          FROM json_each(recovered.data) WITH ORDINALITY AS field (name, value, place)
          WHERE (recovered.type, field.name) IN (
            SELECT sent.type, sent.name
            FROM ${sql.unnest(sent, ["text", "text"])} AS sent (type, name)
          )
        ),
        ${time},
        ${time}
      FROM recovered
      ORDER BY recovered.transaction_id, recovered.id
      ON CONFLICT (endpoint_id, event_id) DO UPDATE
      SET state = 'pending', due_at = excluded.due_at, earlier_attempts = webhook_delivery.attempts
      WHERE webhook_delivery.state <> 'delivered'
    )
    SELECT
      (SELECT count(*) FROM missed) AS found,
      last.transaction_id::text AS "transactionId",
      last.id
    FROM (SELECT) AS one
    LEFT JOIN (
      SELECT transaction_id, id FROM recovered ORDER BY transaction_id DESC, id DESC LIMIT 1
    ) AS last ON true
  `);
  return {
    found,
    last:
      transactionId === null || lastId === null
        ? null
        : { transactionId: BigInt(transactionId), id: lastId },
  };
};

/** Makes a delivery due, and begins its schedule again, unless a worker is making an attempt. */
export const makeDeliveryDue = async (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
  now: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET state = 'pending', due_at = ${timestamp(now)}, earlier_attempts = attempts, leased_until = NULL
    WHERE endpoint_id = ${endpointId}
      AND event_id = ${id}
      AND ${isLeaseFree(sql.fragment`leased_until`, deliveryLease(now))}
  `);
};

/** So that the statement stays short. A repeated call continues. */
const MAXIMUM_MADE_DUE = 1000;

/**
 * Makes deliveries of enabled endpoints due that wait for a time which was recorded before the clock was set back: new
 * ones, which are due when they are recorded, and retries that wait for longer than any delay lasts. Other retries keep
 * their time. Both are searches in indexes that find nothing otherwise.
 */
export const makeFutureDeliveriesDue = async (db: CommonQueryMethods, now: Date): Promise<void> => {
  // The clocks of two machines differ by less.
  const future = timestamp(deliveryLease(now).until);
  const latestRetry = timestamp(new Date(now.getTime() + 2 * MAXIMUM_RETRY_DELAY_MS));
  await db.query(sql.typeAlias("void")`
    WITH RECURSIVE ${pendingEndpoints()},
    early AS MATERIALIZED (
      SELECT pending_endpoint.id AS endpoint_id, future.event_id
      FROM pending_endpoint
      CROSS JOIN LATERAL (
        SELECT new.event_id
        FROM webhook_delivery AS new
        WHERE new.endpoint_id = pending_endpoint.id
          AND new.created_at > ${future}
          AND new.state = 'pending'
          AND new.attempts = new.earlier_attempts
          AND new.due_at > ${future}
        UNION ALL
        SELECT retried.event_id
        FROM webhook_delivery AS retried
        WHERE retried.endpoint_id = pending_endpoint.id
          AND retried.state = 'pending'
          AND retried.due_at > ${latestRetry}
      ) AS future
      LIMIT ${MAXIMUM_MADE_DUE}
    )
    UPDATE webhook_delivery
    SET due_at = ${timestamp(now)}
    FROM early
    WHERE webhook_delivery.endpoint_id = early.endpoint_id
      AND webhook_delivery.event_id = early.event_id
      AND webhook_delivery.state = 'pending'
  `);
};
