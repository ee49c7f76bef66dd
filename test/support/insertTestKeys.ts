import type { CommonQueryMethods } from "slonik";
import { sql } from "../../db/sql.ts";

/** Stores the idempotency keys of an account's registrations or donations, which a test has inserted by itself, unless they are stored. */
export const insertTestKeys = async (
  db: CommonQueryMethods,
  table: "registration" | "donation",
  operation: "plant" | "donate",
  accountId: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
    SELECT
      idempotency_key_hash((SELECT idempotency_secret FROM deployment), account_id, mode, ${operation}, idempotency_key), account_id, mode, ${operation}, id
    FROM ${sql.identifier([table])}
    WHERE account_id = ${accountId} AND idempotency_key IS NOT NULL
    ON CONFLICT DO NOTHING
  `);
};
