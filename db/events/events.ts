import type { CommonQueryMethods } from "slonik";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { StoredEventContent } from "../../domain/events/events.ts";
import { sql } from "../sql.ts";

/**
 * Inserts events, and their deliveries to the endpoints that want them. The caller's transaction must also make the changes
 * that they describe.
 */
export const insertEvents = async (
  transaction: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  events: readonly (StoredEventContent & { readonly id: string; readonly webhookData: object })[],
  createdAt: Date,
): Promise<void> => {
  const input = JSON.stringify(
    events.map(({ id, type, data, webhookData }) => [id, type, data, webhookData]),
  );
  const time = sql.fragment`${createdAt.toISOString()}::timestamptz`;
  await transaction.query(sql.typeAlias("void")`
    WITH given AS (
      SELECT (value ->> 0)::uuid AS id, value ->> 1 AS type, value -> 2 AS data, value -> 3 AS webhook_data
      FROM json_array_elements(${input}::json) AS value
    ),
    inserted AS (
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      SELECT given.id, ${accountId}, ${mode}, given.type, ${time}, given.data
      FROM given
    )
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    SELECT webhook_endpoint.id, given.id, given.type, ${time}, given.webhook_data, ${time}, ${time}
    FROM webhook_endpoint
    JOIN given ON (webhook_endpoint.types IS NULL OR given.type = ANY(webhook_endpoint.types))
    WHERE webhook_endpoint.account_id = ${accountId}
      AND webhook_endpoint.mode = ${mode}
      AND webhook_endpoint.deleted_at IS NULL
      AND webhook_endpoint.disabled_at IS NULL
  `);
};

/**
 * Deletes events that are older than a time and of transactions before a given one, except the newest of them of each account, mode and type: it shows
 * whether a reader has missed any.
 * @returns how many were deleted
 */
export const deleteEventsBefore = async (
  db: CommonQueryMethods,
  { time, transactionId }: { readonly time: Date; readonly transactionId: bigint },
  limit: number,
): Promise<number> => {
  const boundary = sql.fragment`${String(transactionId)}::xid8`;
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM event
    WHERE id IN (
      SELECT old.id
      FROM event AS old
      WHERE old.created_at <= ${time.toISOString()}::timestamptz
        AND old.transaction_id < ${boundary}
        AND EXISTS (
          SELECT
          FROM event AS newer
          WHERE newer.account_id = old.account_id
            AND newer.mode = old.mode
            AND newer.type = old.type
            AND (newer.transaction_id, newer.id) > (old.transaction_id, old.id)
            AND newer.transaction_id < ${boundary}
        )
      LIMIT ${limit}
    )
  `);
  return rowCount;
};
