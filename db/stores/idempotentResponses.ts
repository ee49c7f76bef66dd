import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { STORE_OPERATIONS } from "../../domain/stores/stores.ts";
import type { StoreOperation } from "../../domain/stores/stores.ts";
import { modeColumn } from "../columns.ts";
import { nothing, sql } from "../sql.ts";

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
  /** SHA-256 of the request in hexadecimal digits. */
  requestHash: z.string(),
  responseBody: z.string(),
});

export type IdempotentResponse = Readonly<z.output<typeof responseRow>>;

export const listIdempotentResponses = async (
  db: CommonQueryMethods,
  keys: readonly ScopedKey[],
): Promise<readonly IdempotentResponse[]> =>
  keys.length === 0
    ? []
    : db.any(sql.type(responseRow)`
        SELECT
          account_id AS "accountId",
          mode,
          operation,
          key,
          encode(request_hash, 'hex') AS "requestHash",
          response_body AS "responseBody"
        FROM idempotent_response
        JOIN json_to_recordset(${JSON.stringify(
          keys.map(({ accountId, mode, operation, key }) => ({
            account_id: accountId,
            mode,
            operation,
            key,
          })),
        )}) AS wanted (account_id uuid, mode text, operation text, key text)
          USING (account_id, mode, operation, key)
      `);

export const insertIdempotentResponses = async (
  transaction: DatabaseTransactionConnection,
  responses: readonly IdempotentResponse[],
  createdAt: Date,
): Promise<void> => {
  if (responses.length === 0) {
    return;
  }
  await transaction.query(sql.prepared("insert_idempotent_responses", nothing)`
    INSERT INTO idempotent_response (
      account_id, mode, operation, key, request_hash, response_body, created_at
    )
    SELECT
      account_id, mode, operation, key, decode(request_hash, 'hex'), response_body,
      ${createdAt.toISOString()}::timestamptz
    FROM json_to_recordset(${JSON.stringify(
      responses.map(({ accountId, requestHash, responseBody, ...rest }) => ({
        account_id: accountId,
        request_hash: requestHash,
        response_body: responseBody,
        ...rest,
      })),
    )}) AS given (
      account_id uuid, mode text, operation text, key text, request_hash text, response_body text
    )
  `);
};
