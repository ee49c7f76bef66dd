import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { DISABLED_REASONS } from "./webhooks.rules.ts";
import type { DisabledReason } from "./webhooks.rules.ts";
import { isUuid } from "../records/fields.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { countDeleted, deletedRow, startingAt } from "../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { sql, timestamp } from "../../db/sql.ts";

export const endpointRow = z.strictObject({
  id: z.uuid(),
  accountId: z.uuid(),
  mode: modeColumn,
  url: z.string(),
  description: z.string(),
  /** Null for all types. */
  types: z.array(z.string()).nullable(),
  createdAt: z.date(),
  /**
   * The first failed attempt since the last one that succeeded, since the URL was changed or since the endpoint was enabled;
   * null if none failed since.
   */
  failingSince: z.date().nullable(),
  disabledAt: z.date().nullable(),
  disabledReason: z.enum(DISABLED_REASONS).nullable(),
});
export type WebhookEndpoint = Readonly<z.output<typeof endpointRow>>;

export const endpointColumns = sql.fragment`
  webhook_endpoint.id,
  webhook_endpoint.account_id AS "accountId",
  webhook_endpoint.mode,
  webhook_endpoint.url,
  webhook_endpoint.description,
  webhook_endpoint.types,
  webhook_endpoint.created_at AS "createdAt",
  webhook_endpoint.failing_since AS "failingSince",
  webhook_endpoint.disabled_at AS "disabledAt",
  webhook_endpoint.disabled_reason AS "disabledReason"
`;

const ownedBy = ({ accountId, mode }: AccountMode) => sql.fragment`
  webhook_endpoint.account_id = ${accountId}
  AND webhook_endpoint.mode = ${mode}
  AND webhook_endpoint.deleted_at IS NULL
`;

/** Lets one transaction at a time add or delete an endpoint, or change a URL or a secret, of an owner. */
export const lockEndpointsOf = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT FROM pg_advisory_xact_lock(
      hashtextextended(${`webhook_endpoint/${accountId}/${mode}`}, 0)
    )
  `);
};

/** Lists the endpoints of an owner, oldest first. */
export const listEndpoints = (
  db: CommonQueryMethods,
  owner: AccountMode,
): Promise<readonly WebhookEndpoint[]> =>
  db.any(sql.type(endpointRow)`
    SELECT ${endpointColumns}
    FROM webhook_endpoint
    WHERE ${ownedBy(owner)}
    ORDER BY webhook_endpoint.created_at, webhook_endpoint.id
  `);

/** Finds the endpoint of an owner that a request with a key has created. The caller holds the lock of the owner's endpoints. */
export const findEndpointByKey = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  idempotencyKey: string,
): Promise<WebhookEndpoint | null> =>
  transaction.maybeOne(sql.type(endpointRow)`
    SELECT ${endpointColumns}
    FROM webhook_endpoint
    WHERE ${ownedBy(owner)} AND webhook_endpoint.idempotency_key = ${idempotencyKey}
  `);

/** Finds an endpoint of any owner, unless it is deleted. */
export const findEndpoint = (db: CommonQueryMethods, id: string): Promise<WebhookEndpoint | null> =>
  db.maybeOne(sql.type(endpointRow)`
    SELECT ${endpointColumns}
    FROM webhook_endpoint
    WHERE webhook_endpoint.id = ${id} AND webhook_endpoint.deleted_at IS NULL
  `);

/** Finds an endpoint of an owner. */
export const findOwnEndpoint = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  id: string,
): Promise<WebhookEndpoint | null> =>
  isUuid(id)
    ? db.maybeOne(sql.type(endpointRow)`
        SELECT ${endpointColumns}
        FROM webhook_endpoint
        WHERE webhook_endpoint.id = ${id} AND ${ownedBy(owner)}
      `)
    : null;

type NewEndpoint = Pick<
  WebhookEndpoint,
  "id" | "accountId" | "mode" | "url" | "description" | "types"
> & { readonly idempotencyKey: string | null };

const typesOf = (types: readonly string[] | null) =>
  types === null ? sql.fragment`NULL` : sql.array(types, "text");

export const insertEndpoint = (
  transaction: DatabaseTransactionConnection,
  { id, accountId, mode, url, description, types, idempotencyKey }: NewEndpoint,
  createdAt: Date,
): Promise<WebhookEndpoint> =>
  transaction.one(sql.type(endpointRow)`
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, types, idempotency_key, created_at)
    VALUES (
      ${id}, ${accountId}, ${mode}, ${url}, ${description}, ${typesOf(types)}, ${idempotencyKey}, ${timestamp(createdAt)}
    )
    RETURNING ${endpointColumns}
  `);

/** Changes an endpoint. What its server did at an earlier URL says nothing about another one. */
export const updateEndpoint = (
  transaction: DatabaseTransactionConnection,
  { id, url, description, types }: Pick<NewEndpoint, "id" | "url" | "description" | "types">,
): Promise<WebhookEndpoint> =>
  transaction.one(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET
      url = ${url},
      description = ${description},
      types = ${typesOf(types)},
      failing_since = CASE WHEN url = ${url} THEN failing_since END
    WHERE id = ${id}
    RETURNING ${endpointColumns}
  `);

/**
 * Disables an endpoint that is not disabled.
 * @param options.url the URL that is the reason; without it, the endpoint is disabled whatever its URL is
 * @returns null if it was disabled or deleted already, or has another URL
 */
export const disableEndpoint = (
  db: CommonQueryMethods,
  id: string,
  reason: DisabledReason,
  now: Date,
  { url }: { readonly url?: string } = {},
): Promise<WebhookEndpoint | null> =>
  db.maybeOne(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET disabled_at = ${timestamp(now)}, disabled_reason = ${reason}
    WHERE id = ${id} AND disabled_at IS NULL AND deleted_at IS NULL
      ${url === undefined ? sql.fragment`` : sql.fragment`AND url = ${url}`}
    RETURNING ${endpointColumns}
  `);

/**
 * Disables all endpoints that are enabled, as if their owners had requested it.
 * @returns how many were disabled
 */
export const disableAllEndpoints = async (
  transaction: DatabaseTransactionConnection,
  now: Date,
): Promise<number> => {
  const { rowCount } = await transaction.query(sql.typeAlias("void")`
    UPDATE webhook_endpoint
    SET disabled_at = ${timestamp(now)}, disabled_reason = 'requested'
    WHERE disabled_at IS NULL AND deleted_at IS NULL
  `);
  return rowCount;
};

/**
 * Enables an endpoint that is disabled.
 * @returns null if it was enabled already
 */
export const enableEndpoint = (
  db: CommonQueryMethods,
  id: string,
): Promise<WebhookEndpoint | null> =>
  db.maybeOne(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL
    WHERE id = ${id} AND disabled_at IS NOT NULL AND deleted_at IS NULL
    RETURNING ${endpointColumns}
  `);

export const markEndpointDeleted = async (
  transaction: DatabaseTransactionConnection,
  id: string,
  now: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE webhook_endpoint
    SET deleted_at = ${timestamp(now)}
    WHERE id = ${id} AND deleted_at IS NULL
  `);
};

/** What the attempts of an endpoint say about the server at a URL, which it may have no longer. */
export type EndpointResult = {
  readonly endpointId: string;
  readonly url: string;
  readonly hasSucceeded: boolean;
  /** When the first attempt failed after the last success; null if none did. */
  readonly failedAt: Date | null;
};

/** Records what attempts say about the servers of endpoints. It writes only what changes. */
export const recordEndpointResults = async (
  db: CommonQueryMethods,
  results: readonly EndpointResult[],
): Promise<void> => {
  const failingSince = sql.fragment`
    CASE WHEN result.has_succeeded THEN result.failed_at ELSE coalesce(webhook_endpoint.failing_since, result.failed_at) END
  `;
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_endpoint
    SET failing_since = ${failingSince}
    FROM ${sql.unnest(
      results.map(({ endpointId, url, hasSucceeded, failedAt }) => [
        endpointId,
        url,
        hasSucceeded,
        failedAt?.toISOString() ?? null,
      ]),
      ["uuid", "text", "bool", "timestamptz"],
    )} AS result (endpoint_id, url, has_succeeded, failed_at)
    WHERE webhook_endpoint.id = result.endpoint_id
      AND webhook_endpoint.url = result.url
      AND webhook_endpoint.failing_since IS DISTINCT FROM ${failingSince}
  `);
};

/**
 * Deletes endpoints that were deleted before a time and have no deliveries left, in the order in which they were deleted.
 * @param from where an earlier batch ended; null for the first
 */
export const deleteEndpointsBefore = (
  db: CommonQueryMethods,
  { from, time }: { readonly from: Date | null; readonly time: Date },
  limit: number,
): Promise<Deleted> =>
  db.one(sql.type(deletedRow)`
    WITH deleted AS (
      DELETE FROM webhook_endpoint
      WHERE ctid = ANY(ARRAY(
        SELECT ctid
        FROM webhook_endpoint
        WHERE deleted_at >= ${startingAt(from)} AND deleted_at <= ${timestamp(time)}
          AND NOT EXISTS (
            SELECT FROM webhook_delivery WHERE endpoint_id = webhook_endpoint.id OFFSET 0
          )
        ORDER BY deleted_at
        LIMIT ${limit}
      ))
      RETURNING deleted_at AS time
    )
    ${countDeleted}
  `);

/** Adds the secret that signs from now on. The caller has ended the one before it. */
export const insertSecret = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
  secret: string,
  createdAt: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO webhook_secret (endpoint_id, secret, created_at)
    VALUES (${endpointId}, ${secret}, ${timestamp(createdAt)})
  `);
};

/** Returns the query of an endpoint's secrets that sign at a time, newest first. */
export const signingSecrets = (endpointId: FragmentSqlToken, now: Date): FragmentSqlToken =>
  sql.fragment`
    SELECT secret
    FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND (expires_at IS NULL OR expires_at > ${timestamp(now)})
    ORDER BY expires_at DESC NULLS FIRST, created_at DESC
  `;

const secretRow = z.strictObject({ secret: z.string() });

/** Lists an endpoint's secrets that sign at a time, newest first. */
export const listSecrets = (
  db: CommonQueryMethods,
  endpointId: string,
  now: Date,
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(secretRow)`${signingSecrets(sql.fragment`${endpointId}`, now)}`);

/** Returns the secret of an endpoint that was not replaced. */
export const getCurrentSecret = (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
): Promise<string> =>
  transaction.oneFirst(sql.type(secretRow)`
    SELECT secret
    FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND expires_at IS NULL
  `);

/** Lets the current secret sign until a time, and deletes those that no longer sign. */
export const endCurrentSecret = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
  { now, until }: { readonly now: Date; readonly until: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE webhook_secret
    SET expires_at = ${timestamp(until)}
    WHERE endpoint_id = ${endpointId} AND expires_at IS NULL
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND expires_at <= ${timestamp(now)}
  `);
};

export const deleteSecrets = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM webhook_secret
    WHERE endpoint_id = ${endpointId}
  `);
};
