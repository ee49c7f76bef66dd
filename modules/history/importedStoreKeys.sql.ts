import type { CommonQueryMethods } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoreOperation } from "../stores/stores.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";
import { hashKey } from "../stores/idempotentResponses.sql.ts";

/** The idempotency key of a store's write on another system, which did not export the request. */
export type ImportedStoreKey = { readonly operation: StoreOperation; readonly key: string };

/** Stores the keys of a store's imported writes. Fails if a key is in use: its write would be recorded twice. */
export const insertImportedStoreKeys = async (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  keys: readonly ImportedStoreKey[],
  createdAt: Date,
): Promise<void> => {
  if (keys.length === 0) {
    return;
  }
  const rows = keys.map(({ operation, key }) => ({
    operation,
    key_hash: hashKey(key),
  }));
  await db.query(sql.typeAlias("void")`
    INSERT INTO idempotent_response (account_id, mode, operation, key_hash, created_at)
    SELECT ${accountId}::uuid, ${mode}, operation, decode(key_hash, 'hex'), ${timestamp(createdAt)}
    FROM json_to_recordset(${JSON.stringify(rows)}) AS given (operation text, key_hash text)
    ORDER BY operation, key_hash
  `);
};
