import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { DISABLED_REASONS } from "./events.rules.ts";
import type { DisabledReason } from "./events.rules.ts";
import { isUuid } from "../records/fields.rules.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { sql, timestamp } from "../../db/sql.ts";

const endpointRow = z.strictObject({
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
  /** How the last attempt has failed; null if it has not. */
  lastError: z.string().nullable(),
  disabledAt: z.date().nullable(),
  disabledReason: z.enum(DISABLED_REASONS).nullable(),
});
export type WebhookEndpoint = Readonly<z.output<typeof endpointRow>>;

const columns = sql.fragment`
  webhook_endpoint.id,
  webhook_endpoint.account_id AS "accountId",
  webhook_endpoint.mode,
  webhook_endpoint.url,
  webhook_endpoint.description,
  webhook_endpoint.types,
  webhook_endpoint.created_at AS "createdAt",
  webhook_endpoint.failing_since AS "failingSince",
  webhook_endpoint.last_error AS "lastError",
  webhook_endpoint.disabled_at AS "disabledAt",
  webhook_endpoint.disabled_reason AS "disabledReason"
`;

const ownedBy = ({ accountId, mode }: AccountMode) => sql.fragment`
  webhook_endpoint.account_id = ${accountId} AND webhook_endpoint.mode = ${mode}
`;

/** Lets one transaction at a time add an endpoint of an owner, or change one. */
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
    SELECT ${columns}
    FROM webhook_endpoint
    WHERE ${ownedBy(owner)}
    ORDER BY webhook_endpoint.created_at, webhook_endpoint.id
  `);

const ownedRow = endpointRow.extend({ owner: z.string() });

/** An endpoint, and the name of its organization or the domain of its store. */
export type OwnedEndpoint = Readonly<z.output<typeof ownedRow>>;

/**
 * Lists endpoints, those that fail or are disabled first, the longest first.
 * @param filter null for those of all accounts or modes
 */
export const listOwnedEndpoints = (
  db: CommonQueryMethods,
  filter: {
    readonly accountId: string | null;
    readonly mode: Mode | null;
    readonly limit: number;
  },
): Promise<readonly OwnedEndpoint[]> =>
  db.any(sql.type(ownedRow)`
    SELECT ${columns}, coalesce(store.domain, account.name) AS owner
    FROM webhook_endpoint
    JOIN account ON account.id = webhook_endpoint.account_id
    LEFT JOIN store ON store.account_id = account.id
    WHERE (${filter.accountId}::uuid IS NULL OR webhook_endpoint.account_id = ${filter.accountId})
      AND (${filter.mode}::text IS NULL OR webhook_endpoint.mode = ${filter.mode})
    ORDER BY
      coalesce(webhook_endpoint.failing_since, webhook_endpoint.disabled_at),
      webhook_endpoint.created_at,
      webhook_endpoint.id
    LIMIT ${filter.limit}
  `);

/**
 * Finds an endpoint.
 * @param owner null for any
 */
export const findEndpoint = async (
  db: CommonQueryMethods,
  id: string,
  owner: AccountMode | null = null,
): Promise<WebhookEndpoint | null> =>
  isUuid(id)
    ? db.maybeOne(sql.type(endpointRow)`
        SELECT ${columns}
        FROM webhook_endpoint
        WHERE webhook_endpoint.id = ${id} ${owner ? sql.fragment`AND ${ownedBy(owner)}` : sql.fragment``}
      `)
    : null;

const createdRow = endpointRow.extend({ secret: z.string() });

/** An endpoint with the secret that signs. */
export type CreatedEndpoint = Readonly<z.output<typeof createdRow>>;

/** Finds the endpoint of an owner that a request with a key has created. */
export const findEndpointByKey = (
  db: CommonQueryMethods,
  owner: AccountMode,
  idempotencyKey: string,
): Promise<CreatedEndpoint | null> =>
  db.maybeOne(sql.type(createdRow)`
    SELECT ${columns}, webhook_endpoint.secret
    FROM webhook_endpoint
    WHERE ${ownedBy(owner)} AND webhook_endpoint.idempotency_key = ${idempotencyKey}
  `);

/** What the owner of an endpoint chooses. */
export type EndpointSettings = Pick<WebhookEndpoint, "url" | "description" | "types">;

const typesOf = ({ types }: EndpointSettings) =>
  types === null ? sql.fragment`NULL` : sql.array([...types], "text");

export const insertEndpoint = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  endpoint: EndpointSettings &
    Pick<CreatedEndpoint, "id" | "secret" | "createdAt"> & {
      readonly idempotencyKey: string | null;
    },
): Promise<CreatedEndpoint> =>
  transaction.one(sql.type(createdRow)`
    INSERT INTO webhook_endpoint (
      id, account_id, mode, url, description, types, secret, idempotency_key, created_at
    )
    VALUES (
      ${endpoint.id}, ${accountId}, ${mode}, ${endpoint.url}, ${endpoint.description}, ${typesOf(endpoint)},
      ${endpoint.secret}, ${endpoint.idempotencyKey}, ${timestamp(endpoint.createdAt)}
    )
    RETURNING ${columns}, webhook_endpoint.secret
  `);

/** Changes an endpoint. What its server did at an earlier URL says nothing about another one. */
export const updateEndpoint = (
  transaction: DatabaseTransactionConnection,
  id: string,
  settings: EndpointSettings,
): Promise<WebhookEndpoint> =>
  transaction.one(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET
      url = ${settings.url},
      description = ${settings.description},
      types = ${typesOf(settings)},
      failing_since = CASE WHEN url = ${settings.url} THEN failing_since END,
      last_error = CASE WHEN url = ${settings.url} THEN last_error END
    WHERE id = ${id}
    RETURNING ${columns}
  `);

/**
 * Disables an endpoint that is not disabled.
 * @param url the URL that is the reason; null if the endpoint is disabled whatever its URL is
 * @returns null if it was disabled or deleted already, or has another URL
 */
export const disableEndpoint = (
  db: CommonQueryMethods,
  id: string,
  {
    reason,
    url,
    now,
  }: { readonly reason: DisabledReason; readonly url: string | null; readonly now: Date },
): Promise<WebhookEndpoint | null> =>
  db.maybeOne(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET disabled_at = ${timestamp(now)}, disabled_reason = ${reason}
    WHERE id = ${id} AND disabled_at IS NULL AND url = coalesce(${url}, url)
    RETURNING ${columns}
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
    WHERE disabled_at IS NULL
  `);
  return rowCount;
};

/**
 * Enables an endpoint that is disabled.
 * @returns null if it was enabled already, or deleted
 */
export const enableEndpoint = (
  db: CommonQueryMethods,
  id: string,
): Promise<WebhookEndpoint | null> =>
  db.maybeOne(sql.type(endpointRow)`
    UPDATE webhook_endpoint
    SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, last_error = NULL
    WHERE id = ${id} AND disabled_at IS NOT NULL
    RETURNING ${columns}
  `);

/** Deletes an endpoint. Its deliveries are no longer made, and leave with their events. */
export const deleteEndpoint = async (
  transaction: DatabaseTransactionConnection,
  id: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`DELETE FROM webhook_endpoint WHERE id = ${id}`);
};

/**
 * Replaces an endpoint's secret. One that was replaced before no longer signs.
 * @param previousUntil until when the present one signs as well; null if it does not
 */
export const replaceSecret = async (
  transaction: DatabaseTransactionConnection,
  id: string,
  secret: string,
  previousUntil: Date | null,
): Promise<void> => {
  const until = timestamp(previousUntil);
  await transaction.query(sql.typeAlias("void")`
    UPDATE webhook_endpoint
    SET
      secret = ${secret},
      previous_secret = CASE WHEN ${until} IS NOT NULL THEN secret END,
      previous_secret_until = ${until}
    WHERE id = ${id}
  `);
};
