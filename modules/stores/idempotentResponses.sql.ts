import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { STORE_OPERATIONS } from "./stores.rules.ts";
import type { StoreOperation } from "./stores.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { keyHash, scopeOfRow } from "../records/idempotencyKeys.sql.ts";
import { sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";

/** An idempotency key with its scope. */
export type ScopedKey = AccountMode & {
  readonly operation: StoreOperation;
  readonly key: string;
};

export const responseRow = z.strictObject({
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

/** A query of the responses that are stored for the keys of a table `wanted`. */
const storedResponses = (wanted: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT
    wanted.account_id AS "accountId",
    wanted.mode,
    wanted.operation,
    wanted.key,
    encode(found.request_hash, 'hex') AS "requestHash",
    found.response_body AS "responseBody",
    -- Clients know an imported record by another id.
    CASE WHEN ${isImported(sql.fragment`found.record_id`)} THEN NULL ELSE found.record_id END AS "recordId"
  FROM ${wanted} AS wanted (account_id uuid, mode text, operation text, key text)
  CROSS JOIN LATERAL (
    SELECT request_hash, response_body, record_id
    FROM idempotency_key
    WHERE key_hash = ${keyHash(scopeOfRow("wanted"), sql.identifier(["wanted", "key"]))}
    LIMIT 1
  ) AS found
`;

const toWanted = ({ accountId, mode, operation, key }: ScopedKey) => ({
  account_id: accountId,
  mode,
  operation,
  key,
});

export const listIdempotentResponses = async (
  db: CommonQueryMethods,
  keys: readonly ScopedKey[],
): Promise<readonly IdempotentResponse[]> =>
  keys.length === 0
    ? []
    : db.any(sql.prepared("list_idempotent_responses", responseRow)`
        ${storedResponses(sql.fragment`json_to_recordset(${JSON.stringify(keys.map(toWanted))}::json)`)}
      `);

/** An array of the stored responses to those of the keys that are of the store of the query. */
export const responsesOfStore = (keys: readonly ScopedKey[]): FragmentSqlToken => {
  if (keys.length === 0) {
    return sql.fragment`'[]'::json`;
  }
  const byStore = Map.groupBy(keys.map(toWanted), ({ account_id: accountId }) => accountId);
  const input = JSON.stringify(Object.fromEntries(byStore));
  // The subselect parses it once.
  const wanted = sql.fragment`jsonb_to_recordset((SELECT ${input}::jsonb) -> store.account_id::text)`;
  return sql.fragment`(SELECT coalesce(json_agg(stored), '[]') FROM (${storedResponses(wanted)}) AS stored)`;
};
