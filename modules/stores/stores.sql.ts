import { UniqueIntegrityConstraintViolationError } from "slonik";
import type { FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { safeInteger, sql, assignmentsOf, timestamp } from "../../db/sql.ts";
import { CHARITY_PROVIDERS } from "../accounts/accounts.rules.ts";
import type { Feature } from "./stores.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

const priceFields = {
  treePriceCents: safeInteger,
  bottlePriceCents: safeInteger,
} satisfies Record<`${Kind}PriceCents`, z.ZodType>;

const priceColumn = (kind: Kind): `${Kind}_price_cents` => `${kind}_price_cents`;

/** Joins what is selected or inserted for each kind. */
const ofEachKind = (partOf: (kind: Kind) => FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`${sql.join(KINDS.map(partOf), sql.fragment`, `)}`;

/** What decides about a store's writes. */
export const balanceRow = {
  domain: z.string(),
  ...priceFields,
  balanceCents: safeInteger,
  lowBalanceCents: safeInteger,
  treePlanting: z.boolean(),
  plasticRemoval: z.boolean(),
  donations: z.boolean(),
};

/** The columns of `balanceRow`. */
export const balanceColumns = sql.fragment`
  store.domain,
  ${ofEachKind(
    (kind) =>
      sql.fragment`${sql.identifier(["store", priceColumn(kind)])} AS ${sql.identifier([`${kind}PriceCents`])}`,
  )},
  store.balance_cents AS "balanceCents",
  store.low_balance_cents AS "lowBalanceCents",
  store.tree_planting AS "treePlanting",
  store.plastic_removal AS "plasticRemoval",
  store.donations
`;

const storeRow = z.strictObject({
  id: z.uuid(),
  userId: z.string(),
  organizationId: z.uuid().nullable(),
  ...balanceRow,
  charityProvider: z.enum(CHARITY_PROVIDERS),
  uninstalledAt: z.date().nullable(),
  createdAt: z.date(),
});

/** `id` is the id of the store's account. */
export type Store = Readonly<z.output<typeof storeRow>>;

const selectStore = sql.fragment`
  SELECT
    store.account_id AS id,
    store.user_id AS "userId",
    store.organization_id AS "organizationId",
    ${balanceColumns},
    account.charity_provider AS "charityProvider",
    store.uninstalled_at AS "uninstalledAt",
    account.created_at AS "createdAt"
  FROM store
  JOIN account ON account.id = store.account_id
`;

export const findStore = (db: CommonQueryMethods, id: string): Promise<Store | null> =>
  db.maybeOne(sql.prepared("find_store", storeRow)`
    ${selectStore}
    WHERE store.account_id = ${id}
  `);

/** Returns a function that returns the stores with given names, by name. */
const storesByName = (column: "domain" | "user_id", nameOf: (store: Store) => string) => {
  const name = sql.identifier(["store", column]);
  return async (
    db: CommonQueryMethods,
    names: readonly string[],
  ): Promise<ReadonlyMap<string, Store>> => {
    // Of a JSON array the planner expects the same number of elements whatever it has, so it keeps one plan. OFFSET 0 keeps
    // this a look-up for each name.
    const stores = await db.any(sql.prepared(`list_stores_by_${column}`, storeRow)`
      SELECT named.*
      FROM json_array_elements_text(${JSON.stringify(names)}::json) AS given (name)
      CROSS JOIN LATERAL (${selectStore} WHERE ${name} = given.name OFFSET 0) AS named
    `);
    return new Map(stores.map((store) => [nameOf(store), store]));
  };
};

export const listStoresByDomain = storesByName("domain", ({ domain }) => domain);
export const listStoresByUserId = storesByName("user_id", ({ userId }) => userId);

/** @param domain in the form that `normalizeDomain` returns */
export const findStoreByDomain = async (
  db: CommonQueryMethods,
  domain: string,
): Promise<Store | null> => (await listStoresByDomain(db, [domain])).get(domain) ?? null;

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
  store: Pick<
    Store,
    "id" | "domain" | "userId" | "organizationId" | `${Kind}PriceCents` | "lowBalanceCents"
  >,
): Promise<void> => {
  try {
    await db.query(sql.typeAlias("void")`
      INSERT INTO store (
        account_id, domain, user_id, organization_id, low_balance_cents,
        ${ofEachKind((kind) => sql.fragment`${sql.identifier([priceColumn(kind)])}`)}
      )
      VALUES (
        ${store.id}, ${store.domain}, ${store.userId}, ${store.organizationId}, ${store.lowBalanceCents},
        ${ofEachKind((kind) => sql.fragment`${store[`${kind}PriceCents`]}`)}
      )
    `);
  } catch (error) {
    throw asDomainError(error);
  }
};

/** Absent columns stay unchanged. */
export type StoreChanges = {
  readonly [
    Name in
      | "userId"
      | "organizationId"
      | `${Kind}PriceCents`
      | "lowBalanceCents"
      | Feature
      | "uninstalledAt"
  ]?: Store[Name] | undefined;
};

/** @throws DomainError request_invalid if another store has the user id */
export const updateStore = async (
  db: CommonQueryMethods,
  id: string,
  changes: StoreChanges,
): Promise<void> => {
  const { uninstalledAt } = changes;
  const assignments = assignmentsOf({
    user_id: changes.userId,
    organization_id: changes.organizationId,
    ...Object.fromEntries(KINDS.map((kind) => [priceColumn(kind), changes[`${kind}PriceCents`]])),
    low_balance_cents: changes.lowBalanceCents,
    tree_planting: changes.treePlanting,
    plastic_removal: changes.plasticRemoval,
    donations: changes.donations,
    uninstalled_at: uninstalledAt === undefined ? undefined : timestamp(uninstalledAt),
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
