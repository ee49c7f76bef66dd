import type { FragmentSqlToken, IdentifierSqlToken } from "slonik";
import { REGISTER_OPERATIONS } from "./idempotencyKeys.rules.ts";
import type { Operation } from "./idempotencyKeys.rules.ts";
import { KINDS } from "./owner.rules.ts";
import type { AccountMode } from "./owner.rules.ts";
import { sql } from "../../db/sql.ts";

/*
 * The primary key is a hash of the key and its scope, so a look-up of a key is a search of the primary key, which is all
 * that the planner can do (ADR 102).
 */

type Expression = FragmentSqlToken | IdentifierSqlToken;

/** What a key belongs to, as expressions of SQL: those of rows, or parameters. */
type KeyScope = {
  readonly accountId: Expression;
  readonly mode: Expression;
  readonly operation: Expression;
};

export const keyHash = ({ accountId, mode, operation }: KeyScope, key: Expression) => sql.fragment`
  idempotency_key_hash((SELECT idempotency_secret FROM deployment), ${accountId}, ${mode}, ${operation}, ${key})
`;

export const scopeOf = ({ accountId, mode }: AccountMode, operation: Operation): KeyScope => ({
  accountId: sql.fragment`${accountId}::uuid`,
  mode: sql.fragment`${mode}::text`,
  operation: sql.fragment`${operation}::text`,
});

export const scopeOfRow = (table: string): KeyScope => ({
  accountId: sql.identifier([table, "account_id"]),
  mode: sql.identifier([table, "mode"]),
  operation: sql.identifier([table, "operation"]),
});

export const registerOperation = (kind: Expression) => sql.fragment`
  CASE ${kind} ${sql.join(
    KINDS.map(
      (name) =>
        sql.fragment`WHEN ${sql.literalValue(name)} THEN ${sql.literalValue(REGISTER_OPERATIONS[name])}`,
    ),
    sql.fragment` `,
  )} END
`;

/** The id of the record that a key belongs to; null if the key is unknown or belongs to none. */
export const recordOfKey = (hash: Expression) =>
  sql.fragment`(SELECT record_id FROM idempotency_key WHERE key_hash = ${hash})`;

/** Those of the keys that are known, as a table `known` with the columns `key` and `record_id`. */
export const knownKeys = (
  owner: AccountMode,
  operation: Operation,
  keys: readonly string[],
) => sql.fragment`(
  SELECT given.key, idempotency_key.record_id
  FROM unnest((SELECT ${sql.array([...keys], "text")})) AS given (key)
  JOIN idempotency_key ON idempotency_key.key_hash = ${keyHash(scopeOf(owner, operation), sql.identifier(["given", "key"]))}
) AS known`;

/**
 * Defines the query `claimed`, which inserts the keys of the query `entry`, with `id` and `idempotency_key`, unless they
 * are known. Waits for other transactions that insert one of the keys.
 * @param join joins what is inserted before the keys
 */
export const claimedKeys = (
  scope: KeyScope,
  join: FragmentSqlToken = sql.fragment``,
) => sql.fragment`
  claimed AS (
    INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
    SELECT
      ${keyHash(scope, sql.identifier(["entry", "idempotency_key"]))} AS key_hash, ${scope.accountId}, ${scope.mode},
      ${scope.operation}, entry.id
    FROM entry ${join}
    WHERE entry.idempotency_key IS NOT NULL
    -- In the order of all statements, so that two with the same keys cannot deadlock.
    ORDER BY key_hash, entry.id
    ON CONFLICT (key_hash) DO NOTHING
    RETURNING record_id
  )
`;
