import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { subscriptionStatus } from "./accounts.rules.ts";
import { KEY_SCOPES } from "./apiKeys.rules.ts";
import { accountTypeColumn, modeColumn } from "../records/columns.sql.ts";
import { columnsOf, sql, timestamp } from "../../db/sql.ts";

/** Returns what is stored of a key: its SHA-256 in hexadecimal digits. */
export const digestOf = (key: string): string => hash("sha256", key, "hex");

export const apiKeyRow = z.strictObject({
  id: z.uuid(),
  accountId: z.uuid(),
  name: z.string(),
  mode: modeColumn,
  scope: z.enum(KEY_SCOPES),
  hint: z.string(),
  createdAt: z.date(),
  expiresAt: z.date().nullable(),
  /** The start of the hour of the last use; null if the key has never been used. */
  lastUsedAt: z.date().nullable(),
  revokedAt: z.date().nullable(),
  digest: z.string(),
});
export type ApiKey = Readonly<z.output<typeof apiKeyRow>>;

const columns = columnsOf("api_key", apiKeyRow, {
  digest: sql.fragment`encode(api_key.hash, 'hex')`,
});

const callerRow = z.strictObject({
  keyId: z.uuid(),
  accountId: z.uuid(),
  accountType: accountTypeColumn,
  mode: modeColumn,
  scope: z.enum(KEY_SCOPES),
  expiresAt: z.date().nullable(),
  lastUsedAt: z.date().nullable(),
  fractionalCounting: z.boolean(),
  /** The subscription that live registrations depend on; null without the policy `suspend`, and in test mode. */
  suspendingSubscription: subscriptionStatus.nullable(),
  /** Whether an operator has set limits for the account in this mode. */
  isLimited: z.boolean(),
});

/** The account and mode that a key authenticates. */
export type Caller = Readonly<z.output<typeof callerRow>>;

const hashedCallerRow = callerRow.extend({ digest: z.string() });

/**
 * Finds the callers of keys that are not revoked, which may have expired.
 * @param digests of the keys; the result is by them
 */
export const listCallers = async (db: CommonQueryMethods, digests: readonly string[]) => {
  // Of a JSON array the planner expects the same number of elements whatever it has, so it keeps one plan. Planning took
  // most of the statement's time.
  const rows = await db.any(sql.prepared("list_callers", hashedCallerRow)`
    SELECT caller.*
    FROM json_array_elements_text(${JSON.stringify(digests)}::json) AS given (digest)
    CROSS JOIN LATERAL (
      SELECT ${columnsOf("api_key", hashedCallerRow, {
        digest: sql.fragment`given.digest`,
        keyId: sql.fragment`api_key.id`,
        accountType: sql.fragment`account.type`,
        fractionalCounting: sql.fragment`account.fractional_counting`,
        suspendingSubscription: sql.fragment`stripe_subscription.state`,
        isLimited: sql.fragment`EXISTS (
          SELECT FROM account_limit WHERE account_limit.account_id = account.id AND account_limit.mode = api_key.mode
        )`,
      })}
      FROM api_key
      JOIN account ON account.id = api_key.account_id
      LEFT JOIN stripe_subscription
        ON stripe_subscription.account_id = account.id
        AND stripe_subscription.subscription_id = account.stripe_subscription_id
        AND account.subscription_policy = 'suspend'
        AND api_key.mode = 'live'
      WHERE api_key.hash = decode(given.digest, 'hex')
        AND api_key.revoked_at IS NULL
      -- Keeps this a look-up for each key.
      OFFSET 0
    ) AS caller
  `);
  return new Map(rows.map(({ digest, ...caller }) => [digest, caller]));
};

type NewApiKey = Omit<ApiKey, "lastUsedAt" | "revokedAt">;

export const insertApiKey = (db: CommonQueryMethods, key: NewApiKey) =>
  db.query(sql.typeAlias("void")`
    INSERT INTO api_key (id, account_id, mode, hash, hint, name, scope, created_at, expires_at)
    VALUES (
      ${key.id}, ${key.accountId}, ${key.mode}, decode(${key.digest}, 'hex'), ${key.hint}, ${key.name}, ${key.scope},
      ${timestamp(key.createdAt)}, ${timestamp(key.expiresAt)}
    )
  `);

export const listApiKeys = (db: CommonQueryMethods, accountId: string) =>
  db.any(sql.type(apiKeyRow)`
    SELECT ${columns}
    FROM api_key
    WHERE account_id = ${accountId}
    ORDER BY created_at, id
  `);

export const findApiKeyByDigest = (db: CommonQueryMethods, digest: string) =>
  db.maybeOne(sql.type(apiKeyRow)`
    SELECT ${columns} FROM api_key WHERE hash = decode(${digest}, 'hex')
  `);

export const findApiKey = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(sql.type(apiKeyRow)`
    SELECT ${columns} FROM api_key WHERE id = ${id}
  `);

/**
 * Revokes a key.
 * @returns false if it is unknown or was revoked before
 */
export const revokeApiKey = async (db: CommonQueryMethods, id: string, revokedAt: Date) => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE api_key
    SET revoked_at = ${timestamp(revokedAt)}
    WHERE id = ${id}
      AND revoked_at IS NULL
  `);
  return rowCount > 0;
};

/**
 * Stores the hours in which keys were used, unless a later hour is stored.
 * @param uses the start of the hour by the key's id
 */
export const updateLastUses = (db: CommonQueryMethods, uses: ReadonlyMap<string, Date>) =>
  db.query(sql.typeAlias("void")`
    WITH used AS (
      SELECT api_key.id, key_use.hour
      FROM api_key
      JOIN ${sql.unnest(
        [...uses].map(([id, hour]) => [id, hour.toISOString()]),
        ["uuid", "timestamptz"],
      )} AS key_use (id, hour) ON key_use.id = api_key.id
      WHERE api_key.last_used_at IS NULL OR api_key.last_used_at < key_use.hour
      -- In one order, so that processes do not wait for each other in a circle.
      ORDER BY api_key.id
      FOR UPDATE OF api_key
    )
    UPDATE api_key
    SET last_used_at = used.hour
    FROM used
    WHERE api_key.id = used.id
  `);

const expiringKeyRow = z.strictObject({
  id: z.uuid(),
  mode: modeColumn,
  accountName: z.string(),
  expiresAt: z.date(),
});

/** Lists the keys that are valid now and expire before a time, soonest first. */
export const listExpiringKeys = (db: CommonQueryMethods, now: Date, until: Date) =>
  db.any(sql.type(expiringKeyRow)`
    SELECT ${columnsOf("api_key", expiringKeyRow, { accountName: sql.fragment`account.name` })}
    FROM api_key
    JOIN account ON account.id = api_key.account_id
    WHERE api_key.expires_at > ${timestamp(now)}
      AND api_key.expires_at <= ${timestamp(until)}
      AND api_key.revoked_at IS NULL
    ORDER BY api_key.expires_at, api_key.id
  `);
