import { UniqueIntegrityConstraintViolationError } from "slonik";
import type { FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { safeInteger, sql, assignmentsOf, timestamp } from "../../db/sql.ts";
import { CHARITY_PROVIDERS } from "../accounts/accounts.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/** What a store pays for a unit of each kind. */
export const priceFields = {
  treePriceCents: safeInteger,
  bottlePriceCents: safeInteger,
} satisfies Record<`${Kind}PriceCents`, z.ZodType>;

const priceColumn = (kind: Kind): `${Kind}_price_cents` => `${kind}_price_cents`;

/** Joins what is selected or inserted for each kind. */
const ofEachKind = (partOf: (kind: Kind) => FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`${sql.join(KINDS.map(partOf), sql.fragment`, `)}`;

/** The columns of `priceFields`. */
export const priceColumns = ofEachKind(
  (kind) =>
    sql.fragment`${sql.identifier(["store", priceColumn(kind)])} AS ${sql.identifier([`${kind}PriceCents`])}`,
);

const storeRow = z.strictObject({
  id: z.uuid(),
  domain: z.string(),
  userId: z.string(),
  organizationId: z.uuid().nullable(),
  ...priceFields,
  lowBalanceCents: safeInteger,
  treePlanting: z.boolean(),
  plasticRemoval: z.boolean(),
  donations: z.boolean(),
  charityProvider: z.enum(CHARITY_PROVIDERS),
  uninstalledAt: z.date().nullable(),
  balanceCents: safeInteger,
  createdAt: z.date(),
});

/** `id` is the id of the store's account. */
export type Store = Readonly<z.output<typeof storeRow>>;

const selectStore = sql.fragment`
  SELECT
    store.account_id AS id,
    store.domain,
    store.user_id AS "userId",
    store.organization_id AS "organizationId",
    ${priceColumns},
    store_balance.low_balance_cents AS "lowBalanceCents",
    store.tree_planting AS "treePlanting",
    store.plastic_removal AS "plasticRemoval",
    store.donations,
    account.charity_provider AS "charityProvider",
    store.uninstalled_at AS "uninstalledAt",
    store_balance.balance_cents AS "balanceCents",
    account.created_at AS "createdAt"
  FROM store
  JOIN account ON account.id = store.account_id
  JOIN store_balance ON store_balance.account_id = store.account_id
`;

export const findStore = (db: CommonQueryMethods, id: string): Promise<Store | null> =>
  db.maybeOne(sql.prepared("find_store", storeRow)`
    ${selectStore}
    WHERE store.account_id = ${id}
  `);

/** @param domain in the form that `normalizeDomain` returns */
export const findStoreByDomain = (db: CommonQueryMethods, domain: string): Promise<Store | null> =>
  db.maybeOne(sql.type(storeRow)`
    ${selectStore}
    WHERE store.domain = ${domain}
  `);

// Of a JSON array the planner expects the same number of elements whatever it has, so it keeps one plan. OFFSET 0 keeps
// these a look-up for each name.

/** Returns the stores with these domains, by domain. */
export const listStoresByDomain = async (
  db: CommonQueryMethods,
  domains: readonly string[],
): Promise<ReadonlyMap<string, Store>> => {
  const stores = await db.any(sql.prepared("list_stores_by_domain", storeRow)`
    SELECT named.*
    FROM json_array_elements_text(${JSON.stringify(domains)}::json) AS given (domain)
    CROSS JOIN LATERAL (
      ${selectStore}
      WHERE store.domain = given.domain
      OFFSET 0
    ) AS named
  `);
  return new Map(stores.map((store) => [store.domain, store]));
};

/** Returns the stores with these user ids, by user id. */
export const listStoresByUserId = async (
  db: CommonQueryMethods,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, Store>> => {
  const stores = await db.any(sql.prepared("list_stores_by_user_id", storeRow)`
    SELECT named.*
    FROM json_array_elements_text(${JSON.stringify(userIds)}::json) AS given (user_id)
    CROSS JOIN LATERAL (
      ${selectStore}
      WHERE store.user_id = given.user_id
      OFFSET 0
    ) AS named
  `);
  return new Map(stores.map((store) => [store.userId, store]));
};

export const listStores = (db: CommonQueryMethods): Promise<readonly Store[]> =>
  db.any(sql.type(storeRow)`
    ${selectStore}
    ORDER BY account.created_at, store.account_id
  `);

/** Converts a violated unique constraint into the error for the caller. */
const asDomainError = (error: unknown): unknown => {
  if (error instanceof UniqueIntegrityConstraintViolationError) {
    const taken = { store_domain: "domain", store_user_id: "user id" }[error.constraint ?? ""];
    if (taken !== undefined) {
      return invalidRequest(`another store has this ${taken}`, {
        cause: error,
      });
    }
  }
  return error;
};

/** @throws DomainError request_invalid if another store has the domain or the user id */
export const insertStore = async (
  db: CommonQueryMethods,
  store: Omit<Store, "charityProvider" | "uninstalledAt" | "balanceCents" | "createdAt">,
): Promise<void> => {
  try {
    await db.query(sql.typeAlias("void")`
      INSERT INTO store (
        account_id, domain, user_id, organization_id, ${ofEachKind((kind) => sql.fragment`${sql.identifier([priceColumn(kind)])}`)},
        tree_planting, plastic_removal, donations
      )
      VALUES (
        ${store.id}, ${store.domain}, ${store.userId}, ${store.organizationId},
        ${ofEachKind((kind) => sql.fragment`${store[`${kind}PriceCents`]}`)},
        ${store.treePlanting}, ${store.plasticRemoval}, ${store.donations}
      )
    `);
  } catch (error) {
    throw asDomainError(error);
  }
  await db.query(sql.typeAlias("void")`
    INSERT INTO store_balance (account_id, low_balance_cents)
    VALUES (${store.id}, ${store.lowBalanceCents})
  `);
};

/** Returns false, and changes nothing, if the store was uninstalled before. */
export const markStoreUninstalled = async (
  db: CommonQueryMethods,
  id: string,
  uninstalledAt: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE store
    SET uninstalled_at = ${timestamp(uninstalledAt)}
    WHERE account_id = ${id} AND uninstalled_at IS NULL
  `);
  return rowCount > 0;
};

/** Absent columns stay unchanged. */
export type StoreChanges = {
  readonly [
    Name in Exclude<
      keyof Store,
      | "id"
      | "domain"
      | "lowBalanceCents"
      | "charityProvider"
      | "uninstalledAt"
      | "balanceCents"
      | "createdAt"
    >
  ]?: Store[Name] | undefined;
} & {
  /** Null reinstalls the store. */
  readonly uninstalledAt?: null;
};

/** @throws DomainError request_invalid if another store has the user id */
export const updateStore = async (
  db: CommonQueryMethods,
  id: string,
  changes: StoreChanges,
): Promise<void> => {
  const assignments = assignmentsOf({
    user_id: changes.userId,
    organization_id: changes.organizationId,
    ...Object.fromEntries(KINDS.map((kind) => [priceColumn(kind), changes[`${kind}PriceCents`]])),
    tree_planting: changes.treePlanting,
    plastic_removal: changes.plasticRemoval,
    donations: changes.donations,
    uninstalled_at: changes.uninstalledAt,
  });
  if (assignments === null) {
    return;
  }
  try {
    await db.query(sql.typeAlias("void")`
      UPDATE store
      SET ${assignments}
      WHERE account_id = ${id}
    `);
  } catch (error) {
    throw asDomainError(error);
  }
};
