import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { STORE_OPERATIONS } from "./stores.rules.ts";
import type { StoreOperation } from "./stores.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import { sql } from "../../db/sql.ts";
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

/** Lists the responses that are stored for keys. */
export const listIdempotentResponses = async (
  db: CommonQueryMethods,
  keys: readonly ScopedKey[],
): Promise<readonly IdempotentResponse[]> => {
  if (keys.length === 0) {
    return [];
  }
  const wanted = keys.map(({ accountId, mode, operation, key }) => [
    accountId,
    mode,
    operation,
    key,
  ]);
  return db.any(sql.prepared("list_idempotent_responses", responseRow)`
    SELECT
      wanted.account_id AS "accountId",
      wanted.mode,
      wanted.operation,
      wanted.key,
      encode(found.request_hash, 'hex') AS "requestHash",
      found.response_body AS "responseBody",
      -- Clients know an imported record by another id.
      CASE WHEN ${isImported(sql.fragment`found.record_id`)} THEN NULL ELSE found.record_id END AS "recordId"
    FROM (
      SELECT (value ->> 0)::uuid AS account_id, value ->> 1 AS mode, value ->> 2 AS operation, value ->> 3 AS key
      FROM json_array_elements(${JSON.stringify(wanted)}::json) AS value
    ) AS wanted
    CROSS JOIN LATERAL (
      SELECT request_hash, response_body, record_id
      FROM idempotency_key
      WHERE key_hash = ${keyHash(scopeOfRow("wanted"), sql.identifier(["wanted", "key"]))}
      LIMIT 1
    ) AS found
  `);
};
