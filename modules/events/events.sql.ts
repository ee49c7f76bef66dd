import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { countDeleted, deletedRow, startOf } from "../../db/batching/deleteInBatches.ts";
import type { DeletedSpan } from "../../db/batching/deleteInBatches.ts";
import { nothing, sql, timestamp } from "../../db/sql.ts";

/** An event to insert. */
export type NewEvent = AccountMode & StoredEventContent & { readonly id: string };

/**
 * Defines queries that insert events of any owners, and their deliveries to the endpoints that want them, as parts of a
 * statement that makes the changes which they describe.
 * @param condition whether the change is made that the event describes, whose data is `value -> 2`
 */
export const eventInserts = (
  events: readonly NewEvent[],
  createdAt: Date | string,
  condition: FragmentSqlToken,
) => {
  const time = timestamp(createdAt);
  const input = JSON.stringify(
    events.map(({ id, accountId, mode, type, data }) => [id, type, data, accountId, mode]),
  );
  return sql.fragment`
    given_event AS (
      SELECT
        (value ->> 0)::uuid AS id, value ->> 1 AS type, value -> 2 AS data,
        (value ->> 3)::uuid AS account_id, value ->> 4 AS mode
      FROM json_array_elements(${input}::json) AS value
      WHERE ${condition}
    ),
    inserted_event AS (
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      SELECT id, account_id, mode, type, ${time}, data
      FROM given_event
    ),
    inserted_delivery AS (
      INSERT INTO webhook_delivery (event_id, endpoint_id, created_at, due_at)
      SELECT given_event.id, webhook_endpoint.id, ${time}, ${time}
      FROM given_event
      JOIN webhook_endpoint
        ON webhook_endpoint.account_id = given_event.account_id
        AND webhook_endpoint.mode = given_event.mode
        AND (webhook_endpoint.types IS NULL OR given_event.type = ANY(webhook_endpoint.types))
      WHERE webhook_endpoint.disabled_at IS NULL
    )
  `;
};

/**
 * Inserts events of any owners, and their deliveries to the endpoints that want them. The caller's transaction must also make
 * the changes that they describe.
 */
export const insertEvents = async (
  transaction: CommonQueryMethods,
  events: readonly NewEvent[],
  createdAt: Date,
) => {
  if (events.length > 0) {
    await transaction.query(sql.prepared("insert_events", nothing)`
      WITH ${eventInserts(events, createdAt, sql.fragment`true`)}
      SELECT
    `);
  }
};

/**
 * Deletes events that are older than a time with their deliveries, oldest first. The newest of them of each account, mode and
 * type stays, because it shows whether a reader has missed any.
 * @returns how many were deleted, and the time of the last one
 */
export const deleteEventsBefore = (db: CommonQueryMethods, span: DeletedSpan, limit: number) =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM event
      WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM event AS old
        WHERE old.created_at >= ${startOf(span)}
          AND old.created_at <= ${timestamp(span.before)}
          -- A search for each event. A join would read the whole table for each batch.
          AND (
            SELECT newer.created_at
            FROM event AS newer
            WHERE (newer.account_id, newer.mode, newer.type) = (old.account_id, old.mode, old.type)
              AND (newer.transaction_id, newer.id) > (old.transaction_id, old.id)
            ORDER BY newer.transaction_id, newer.id
            LIMIT 1
          ) <= ${timestamp(span.before)}
        ORDER BY old.created_at
        LIMIT ${limit}
      ))
      RETURNING created_at AS time
    )
    ${countDeleted}
  `);
