import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { DISABLED_REASONS } from "./events.rules.ts";
import { isUuid } from "../records/fields.rules.ts";
import { accountTypeColumn, modeColumn } from "../records/columns.sql.ts";
import {
  allOf,
  assignmentsOf,
  columnName,
  columnsOf,
  safeInteger,
  sql,
  timestamp,
} from "../../db/sql.ts";

const endpointRow = z.strictObject({
  id: z.uuid(),
  accountId: z.uuid(),
  mode: modeColumn,
  url: z.string(),
  description: z.string(),
  /** Null for all types. */
  types: z.array(z.string()).readonly().nullable(),
  /** What deliveries are signed with. */
  secret: z.string(),
  /** Of the request that created it. */
  idempotencyKey: z.string().nullable(),
  createdAt: z.date(),
  /** The first failure since the last success, change of the URL or enabling; null if there is none. */
  failingSince: z.date().nullable(),
  /** How the last attempt has failed; null if it has not. */
  lastError: z.string().nullable(),
  disabledAt: z.date().nullable(),
  disabledReason: z.enum(DISABLED_REASONS).nullable(),
  accountType: accountTypeColumn,
  /** The name of its organization, or the domain of its store. */
  owner: z.string(),
});
export type WebhookEndpoint = Readonly<z.output<typeof endpointRow>>;

/** Selects the endpoints that are in a table or a query. */
const selectFrom = (rows: FragmentSqlToken) => sql.fragment`
  SELECT ${columnsOf("endpoint", endpointRow, {
    accountType: sql.fragment`account.type`,
    owner: sql.fragment`coalesce(store.domain, account.name)`,
  })}
  FROM ${rows} AS endpoint
  JOIN account ON account.id = endpoint.account_id
  LEFT JOIN store ON store.account_id = account.id
`;

/** Lets one transaction at a time add an endpoint of an owner, or change one. */
export const lockEndpointsOf = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
) =>
  transaction.query(sql.typeAlias("void")`
    SELECT FROM pg_advisory_xact_lock(hashtextextended(${`webhook_endpoint/${accountId}/${mode}`}, 0))
  `);

/** Lists endpoints that meet all conditions: those that fail or are disabled first, the longest first, then the oldest. */
export const listEndpoints = (
  db: CommonQueryMethods,
  filter: {
    readonly id?: string | undefined;
    readonly accountId?: string | undefined;
    readonly mode?: Mode | undefined;
  },
  limit: number | null = null,
) => {
  const conditions = Object.entries(filter).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [sql.fragment`${sql.identifier(["endpoint", columnName(name)])} = ${value}`],
  );
  return db.any(sql.type(endpointRow)`
    ${selectFrom(sql.fragment`webhook_endpoint`)}
    WHERE ${allOf(...conditions)}
    ORDER BY coalesce(endpoint.failing_since, endpoint.disabled_at), endpoint.created_at, endpoint.id
    LIMIT ${limit}
  `);
};

/** @param owner null for any */
export const findEndpoint = async (
  db: CommonQueryMethods,
  id: string,
  owner: AccountMode | null = null,
) => {
  const { accountId, mode } = owner ?? {};
  const [found] = isUuid(id) ? await listEndpoints(db, { id, accountId, mode }) : [];
  return found ?? null;
};

/** What the owner of an endpoint chooses. */
export type EndpointSettings = Pick<WebhookEndpoint, "url" | "description" | "types">;

export const insertEndpoint = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  {
    types,
    ...endpoint
  }: EndpointSettings & Pick<WebhookEndpoint, "id" | "secret" | "idempotencyKey" | "createdAt">,
) =>
  transaction.one(sql.type(endpointRow)`
    WITH inserted AS (
      INSERT INTO webhook_endpoint (
        id, account_id, mode, url, description, types, secret, idempotency_key, created_at
      )
      VALUES (
        ${endpoint.id}, ${accountId}, ${mode}, ${endpoint.url}, ${endpoint.description},
        ${types && sql.array([...types], "text")}, ${endpoint.secret}, ${endpoint.idempotencyKey}, ${timestamp(endpoint.createdAt)}
      )
      RETURNING *
    )
    ${selectFrom(sql.fragment`inserted`)}
  `);

/** What to change; undefined leaves it as it is. */
type Changes<Row> = { readonly [Name in keyof Row]?: Row[Name] | undefined };

export type EndpointChanges = Changes<EndpointSettings>;

/**
 * Changes endpoints, and returns them.
 * @param filter.id the only one; all if it is absent
 */
export const updateEndpoints = (
  db: CommonQueryMethods,
  {
    id = null,
    areEnabled = false,
  }: {
    readonly id?: string | null;
    /** Whether disabled ones are left out. */
    readonly areEnabled?: boolean;
  },
  {
    types,
    ...changes
  }: Changes<
    Omit<WebhookEndpoint, "id" | "accountId" | "mode" | "createdAt" | "accountType" | "owner"> & {
      readonly previousSecret: string | null;
      readonly previousSecretUntil: Date | null;
    }
  >,
) =>
  db.any(sql.type(endpointRow)`
    WITH updated AS (
      UPDATE webhook_endpoint
      SET ${
        assignmentsOf({ ...changes, types: types && sql.array([...types], "text") }) ??
        sql.fragment`url = url`
      }
      WHERE (${id}::uuid IS NULL OR id = ${id})
        AND NOT (${areEnabled} AND disabled_at IS NOT NULL)
      RETURNING *
    )
    ${selectFrom(sql.fragment`updated`)}
  `);

/** Deletes an endpoint. Its deliveries are no longer made, and leave with their events. */
export const deleteEndpoint = (transaction: DatabaseTransactionConnection, id: string) =>
  transaction.query(sql.typeAlias("void")`DELETE FROM webhook_endpoint WHERE id = ${id}`);

const stateRow = z.strictObject({ state: z.string(), count: safeInteger });

/** The states of endpoints that are counted: enabled ones, and why the others are disabled. */
export const ENDPOINT_STATES = ["enabled", "failing", "requested", "gone", "failing_for_days"];

export const countEndpointStates = async (db: CommonQueryMethods) => {
  const rows = await db.any(sql.type(stateRow)`
    SELECT
      CASE
        WHEN disabled_reason = 'failing' THEN 'failing_for_days'
        WHEN disabled_at IS NOT NULL THEN disabled_reason
        WHEN failing_since IS NOT NULL THEN 'failing'
        ELSE 'enabled'
      END AS state,
      count(*) AS count
    FROM webhook_endpoint
    GROUP BY 1
  `);
  return new Map(rows.map(({ state, count }) => [state, count]));
};
