import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { STORE_OPERATIONS } from "./stores.rules.ts";
import type { StoreOperation } from "./stores.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import { countDeleted, deletedRow, startingAt } from "../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { sql, timestamp } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";

/** An idempotency key with its scope. */
type ScopedKey = AccountMode & {
  readonly operation: StoreOperation;
  readonly key: string;
};

const responseRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  operation: z.enum(STORE_OPERATIONS),
  key: z.string(),
  /** SHA-256 of the request in hexadecimal digits. Null if it was erased. */
  requestHash: z.string().nullable(),
  /** Null if it was erased. */
  responseBody: z.string().nullable(),
  /** The registration or donation that the write recorded. Null if it recorded none, or if it was imported. */
  recordId: z.uuid().nullable(),
});

export type IdempotentResponse = Readonly<z.output<typeof responseRow>>;

/** A response to store. It has the time of its record or of its refunds, by which an erasure finds it. */
export type NewResponse = IdempotentResponse & { readonly createdAt: Date | string };

export const listIdempotentResponses = async (
  db: CommonQueryMethods,
  keys: readonly ScopedKey[],
): Promise<readonly IdempotentResponse[]> =>
  keys.length === 0
    ? []
    : db.any(sql.prepared("list_idempotent_responses", responseRow)`
        SELECT
          wanted.account_id AS "accountId",
          wanted.mode,
          wanted.operation,
          wanted.key,
          encode(found.request_hash, 'hex') AS "requestHash",
          found.response_body AS "responseBody",
          -- Clients know an imported record by another id.
          CASE WHEN ${isImported(sql.fragment`found.record_id`)} THEN NULL ELSE found.record_id END AS "recordId"
        FROM json_to_recordset(${JSON.stringify(
          keys.map(({ accountId, mode, operation, key }) => ({
            account_id: accountId,
            mode,
            operation,
            key,
          })),
        )}) AS wanted (account_id uuid, mode text, operation text, key text)
        CROSS JOIN LATERAL (
          SELECT request_hash, response_body, record_id
          FROM idempotency_key
          WHERE key_hash = ${keyHash(scopeOfRow("wanted"), sql.identifier(["wanted", "key"]))}
          LIMIT 1
        ) AS found
      `);

/** Defines a query that inserts responses, as a part of a statement. */
export const responseInserts = (
  responses: readonly NewResponse[],
): FragmentSqlToken => sql.fragment`
  inserted_response AS (
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT
      ${keyHash(scopeOfRow("given"), sql.identifier(["given", "key"]))}, account_id, mode, operation, decode(request_hash, 'hex'),
      response_body, record_id, created_at
    FROM json_to_recordset(${JSON.stringify(
      responses.map(({ key, ...response }) => ({
        account_id: response.accountId,
        mode: response.mode,
        operation: response.operation,
        key,
        request_hash: response.requestHash,
        response_body: response.responseBody,
        record_id: response.recordId,
        created_at: response.createdAt,
      })),
    )}) AS given (
      account_id uuid, mode text, operation text, key text, request_hash text, response_body text,
      record_id uuid, created_at timestamptz
    )
  )
`;

/**
 * Deletes the oldest keys of test writes that belong to no single record. The others are deleted with their records.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteTestResponses = (
  db: CommonQueryMethods,
  { from, before }: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM idempotency_key
      WHERE ctid = ANY(ARRAY(
        SELECT ctid
        FROM idempotency_key
        WHERE mode = 'test' AND record_id IS NULL
          AND created_at >= ${startingAt(from)} AND created_at < ${timestamp(before)}
        ORDER BY created_at
        LIMIT ${limit}
      ))
      RETURNING created_at AS time
    )
    ${countDeleted}
  `);
