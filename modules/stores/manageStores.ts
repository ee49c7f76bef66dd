import type { CommonQueryMethods } from "slonik";
import { findStore, insertStore, updateStore as writeStore } from "./stores.sql.ts";
import type { Store, StoreSettings } from "./stores.sql.ts";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { insertAccount, updateAccount } from "../accounts/accounts.sql.ts";
import { normalizeDomain } from "./stores.rules.ts";
import { getOrganization } from "../accounts/getAccount.ts";
import { issueFirstKeys } from "../accounts/manageKeys.ts";
import type { FirstKeys } from "../accounts/manageKeys.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { setAccountLimit } from "../accounts/accountLimits.sql.ts";
import type { NewLimit } from "../accounts/limits.rules.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import { lockBalance, reportLowBalance } from "./changeBalance.ts";

/** @throws DomainError record_not_found */
export const getStore = async (db: CommonQueryMethods, id: string): Promise<Store> =>
  requireFound(await findStore(db, id), `store ${id} not found`);

/** @throws DomainError record_not_found */
const requireOrganization = async (db: CommonQueryMethods, { organizationId }: StoreSettings) => {
  if (typeof organizationId === "string") {
    await getOrganization(db, organizationId);
  }
};

export type NewStore = StoreSettings & Pick<Store, "domain">;

/**
 * Creates a store with an empty balance and one key for each mode. The keys are returned here only.
 * @throws DomainError request_invalid for a malformed domain, or a domain or user id that another store has;
 *   record_not_found for an unknown organization
 */
export const createStore = (
  { db, clock, actor }: OperatorContext,
  { domain: given, ...settings }: NewStore,
): Promise<FirstKeys & { readonly id: string; readonly domain: string }> =>
  db.transaction(async (transaction) => {
    const domain = normalizeDomain(given);
    if (domain === null) {
      throw invalidRequest(`domain: ${given} is not a domain`);
    }
    await requireOrganization(transaction, settings);
    const id = newId();
    const account = { id, type: "store", name: domain } as const;
    await insertAccount(transaction, { ...account, createdAt: clock.now() });
    await insertStore(transaction, { id, domain });
    await writeStore(transaction, id, settings);
    await recordAction(transaction, actor, clock.now(), {
      action: "store.create",
      accountId: id,
      details: { ...settings, domain },
    });
    const keys = await issueFirstKeys({ db: transaction, clock, actor }, account);
    return { id, domain, ...keys };
  });

/** Absent settings stay unchanged. */
export type StoreUpdate = StoreSettings & {
  /** The keys of a store that is not installed are rejected. */
  readonly isInstalled?: boolean | undefined;
  readonly charityProvider?: CharityProviderName | undefined;
  readonly limit?: NewLimit | undefined;
};

/** @throws DomainError record_not_found for an unknown store or organization, request_invalid for a user id that is taken */
export const updateStore = (
  { db, clock, actor }: OperatorContext,
  id: string,
  { charityProvider, limit, isInstalled, ...changes }: StoreUpdate,
): Promise<Store> =>
  db.transaction(async (transaction) => {
    const store = await lockBalance(transaction, id);
    const { uninstalledAt } = store;
    await requireOrganization(transaction, changes);
    if (charityProvider !== undefined) {
      await updateAccount(transaction, id, { charityProvider });
    }
    if (limit !== undefined) {
      await setAccountLimit(transaction, id, limit);
    }
    const now = clock.now();
    const { lowBalanceCents = store.lowBalanceCents } = changes;
    await reportLowBalance(transaction, store, { lowBalanceCents }, now);
    await writeStore(transaction, id, changes);
    const settings = { ...changes, charityProvider, limit };
    if (Object.values(settings).some((value) => value !== undefined)) {
      const action = "store.update";
      await recordAction(transaction, actor, now, { action, accountId: id, details: settings });
    }
    // A store that is uninstalled already keeps its date.
    if (isInstalled !== undefined && isInstalled !== (uninstalledAt === null)) {
      await writeStore(transaction, id, { uninstalledAt: isInstalled ? null : now });
      await recordAction(transaction, actor, now, {
        action: isInstalled ? "store.reinstall" : "store.uninstall",
        accountId: id,
        ...(isInstalled && { details: { uninstalledAt } }),
      });
    }
    return getStore(transaction, id);
  });
