import type { CommonQueryMethods } from "slonik";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { StoredEventContent } from "../../domain/events/events.ts";
import { sql } from "../sql.ts";

/** Inserts events. The caller's transaction must also make the changes that they describe. */
export const insertEvents = async (
  transaction: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  events: readonly (StoredEventContent & { readonly id: string })[],
  createdAt: Date,
): Promise<void> => {
  const input = JSON.stringify(events.map(({ id, type, data }) => [id, type, data]));
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO event (id, account_id, mode, type, created_at, data)
    SELECT
      (value ->> 0)::uuid, ${accountId}, ${mode}, value ->> 1, ${createdAt.toISOString()}::timestamptz, value -> 2
    FROM json_array_elements(${input}::json) AS value
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
