import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { nothing, safeInteger, sql, timestamp } from "../../db/sql.ts";

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

/** Inserts events and their deliveries. The caller's transaction must also make the changes that they describe. */
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

const deletedRow = z.strictObject({ deleted: safeInteger, last: z.date().nullable() });

/** Short statements, so that neither locks nor replication wait for one of them. */
const DELETED_ROWS = 1000;

/**
 * Deletes the oldest events before a time with their deliveries, some at a time. The newest of them of each account, mode and
 * type stays, because it shows whether a reader has missed any.
 * @param from the time of the last event that was deleted before, without its microseconds. To begin earlier would read again
 *   what stays, and what was deleted, as long as a vacuum or an open snapshot keeps the index entries
 * @returns how many were deleted, and the time of the last one
 */
export const deleteEvents = (db: CommonQueryMethods, before: Date, from: Date | null) =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM event
      WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM event AS old
        WHERE old.created_at >= coalesce(${timestamp(from)}, '-infinity')
          AND old.created_at <= ${timestamp(before)}
          -- A search for each event. A join would read the whole table for each batch.
          AND (
            SELECT newer.created_at
            FROM event AS newer
            WHERE (newer.account_id, newer.mode, newer.type) = (old.account_id, old.mode, old.type)
              AND (newer.transaction_id, newer.id) > (old.transaction_id, old.id)
            ORDER BY newer.transaction_id, newer.id
            LIMIT 1
          ) <= ${timestamp(before)}
        ORDER BY old.created_at
        LIMIT ${DELETED_ROWS}
      ))
      RETURNING created_at
    )
    SELECT count(*) AS deleted, max(created_at) AS last FROM deleted
  `);
