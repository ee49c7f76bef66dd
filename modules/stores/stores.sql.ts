import type { CommonQueryMethods, DatabaseTransactionConnection, QuerySqlToken } from "slonik";
import { z } from "zod";
import type { Kind } from "../records/owner.rules.ts";
import { violates } from "../../db/databaseErrors.ts";
import {
  assignmentsOf,
  columnName,
  columnsOf,
  countRow,
  safeInteger,
  sql,
  timestamp,
} from "../../db/sql.ts";
import { CHARITY_PROVIDERS } from "../accounts/accounts.rules.ts";
import { DEFAULT_PRICES } from "./stores.rules.ts";
import type { Feature } from "./stores.rules.ts";
import { codeOf, invalidRequest } from "../../runtime/errors.rules.ts";

const storeRow = z.strictObject({
  id: z.uuid(),
  domain: z.string(),
  userId: z.string(),
  organizationId: z.uuid().nullable(),
  treePriceCents: safeInteger,
  bottlePriceCents: safeInteger,
  balanceCents: safeInteger,
  lowBalanceCents: safeInteger,
  treePlanting: z.boolean(),
  plasticRemoval: z.boolean(),
  donations: z.boolean(),
  uninstalledAt: z.date().nullable(),
  charityProvider: z.enum(CHARITY_PROVIDERS),
  createdAt: z.date(),
  /** Whether the balance has not covered a write since it last rose. */
  isDepleted: z.boolean(),
  /** The time of the latest record or refund, in microseconds since 1970; 0 if there is none. */
  lastRecordUs: safeInteger,
});

/** `id` is the id of the store's account. */
export type Store = Readonly<z.output<typeof storeRow>>;

const selectStore = sql.fragment`
  SELECT ${columnsOf("store", storeRow, {
    id: sql.fragment`store.account_id`,
    charityProvider: sql.fragment`account.charity_provider`,
    createdAt: sql.fragment`account.created_at`,
    isDepleted: sql.fragment`store.depleted_at IS NOT NULL`,
    lastRecordUs: sql.fragment`(extract(epoch FROM greatest(store.last_record_at, 'epoch')) * 1000000)::bigint`,
  })}
  FROM store
  JOIN account ON account.id = store.account_id
`;

export const findStore = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(sql.prepared("find_store", storeRow)`
    ${selectStore}
    WHERE store.account_id = ${id}
  `);

/**
 * Returns the stores with given domains or user ids, by them.
 * @param names domains in the form that `normalizeDomain` returns
 */
export const listStoresNamed = async (
  db: CommonQueryMethods,
  property: "domain" | "userId",
  names: readonly string[],
) => {
  // Of a JSON array the planner expects the same number of elements whatever it has, so it keeps one plan. OFFSET 0 keeps
  // this a look-up for each name.
  const stores = await db.any(sql.prepared(`list_stores_by_${property}`, storeRow)`
    SELECT named.*
    FROM json_array_elements_text(${JSON.stringify(names)}::json) AS given (name)
    CROSS JOIN LATERAL (
      ${selectStore} WHERE ${sql.identifier(["store", columnName(property)])} = given.name OFFSET 0
    ) AS named
  `);
  return new Map(stores.map((store) => [store[property], store]));
};

export const listStores = (db: CommonQueryMethods) =>
  db.any(sql.type(storeRow)`
    ${selectStore}
    ORDER BY account.created_at, store.account_id
  `);

/**
 * Locks stores until the transaction ends, so that no other one changes their balances, always in the same order to avoid
 * deadlocks.
 * @param options.skipsLocked whether those that another transaction has locked are left out
 */
export const lockBalances = (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
  { skipsLocked = false }: { readonly skipsLocked?: boolean } = {},
) =>
  transaction.any(sql.prepared(`lock_balances${skipsLocked ? "_skip" : ""}`, storeRow)`
    ${selectStore}
    WHERE store.account_id = ANY(${sql.array(ids, "uuid")})
    ORDER BY store.account_id
    FOR NO KEY UPDATE OF store ${skipsLocked ? sql.fragment`SKIP LOCKED` : sql.fragment``}
  `);

/** PostgreSQL's code for a lock that was not granted within `lock_timeout`. */
const LOCK_NOT_AVAILABLE = "55P03";

export const isLockTimeout = (error: unknown): boolean =>
  codeOf(error) === LOCK_NOT_AVAILABLE || (error instanceof Error && isLockTimeout(error.cause));

/**
 * Limits how long each later statement of the transaction waits for a lock.
 * @param timeoutMs 0 for no limit
 */
export const limitLockWait = (transaction: DatabaseTransactionConnection, timeoutMs: number) =>
  transaction.query(sql.typeAlias("void")`
    SELECT FROM set_config('lock_timeout', ${String(timeoutMs)}, true)
  `);

/** Makes later records of a store whose balance is locked be later than imported ones, too. */
export const raiseLastRecordTime = (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  times: readonly string[],
) =>
  transaction.query(sql.typeAlias("void")`
    UPDATE store
    SET last_record_at = greatest(last_record_at, ${timestamp(times.toSorted().at(-1) ?? null)})
    WHERE account_id = ${accountId}
  `);

/** Counts the installed stores whose balance is low, by the rule of `isBalanceLow`. */
export const countLowBalances = (db: CommonQueryMethods) =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count
    FROM store
    WHERE uninstalled_at IS NULL AND balance_cents < low_balance_cents
  `);

/** Runs a statement. Converts a violated unique constraint into the error for the caller. */
const writeStore = async (db: CommonQueryMethods, statement: QuerySqlToken) => {
  try {
    await db.query(statement);
  } catch (error) {
    const taken = ["domain", "user id"].find((name) =>
      violates(error, `store_${name.replace(" ", "_")}`),
    );
    throw taken ? invalidRequest(`another store has this ${taken}`, { cause: error }) : error;
  }
};

/**
 * Inserts a store, which has the default settings until they are changed. Its user id is its own id.
 * @throws DomainError request_invalid if another store has the domain
 */
export const insertStore = (db: CommonQueryMethods, { id, domain }: Pick<Store, "id" | "domain">) =>
  writeStore(
    db,
    sql.typeAlias("void")`
      INSERT INTO store (account_id, domain, user_id, tree_price_cents, bottle_price_cents, low_balance_cents)
      VALUES (${id}, ${domain}, ${id}, ${DEFAULT_PRICES.treePriceCents}, ${DEFAULT_PRICES.bottlePriceCents}, 0)
    `,
  );

/** What an operator can change of a store; absent columns stay unchanged. */
export type StoreSettings = {
  readonly [
    Name in "userId" | "organizationId" | `${Kind}PriceCents` | "lowBalanceCents" | Feature
  ]?: Store[Name] | undefined;
};

/** @throws DomainError request_invalid if another store has the user id */
export const updateStore = async (
  db: CommonQueryMethods,
  id: string,
  changes: StoreSettings & { readonly uninstalledAt?: Date | null; readonly depletedAt?: Date },
) => {
  const assignments = assignmentsOf(changes);
  if (assignments !== null) {
    await writeStore(
      db,
      sql.typeAlias("void")`UPDATE store SET ${assignments} WHERE account_id = ${id}`,
    );
  }
};
