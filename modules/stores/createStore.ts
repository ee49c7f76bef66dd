import type { Kind } from "../records/owner.rules.ts";
import { insertAccount } from "../accounts/accounts.sql.ts";
import type { Store } from "./stores.sql.ts";
import { insertStore } from "./stores.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { normalizeDomain } from "./stores.rules.ts";
import { getOrganization } from "../accounts/getAccount.ts";
import { issueFirstKeys } from "../accounts/issueKey.ts";
import type { FirstKeys } from "../accounts/issueKey.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "../accounts/context.ts";

export type NewStore = Pick<
  Store,
  "domain" | "organizationId" | `${Kind}PriceCents` | "lowBalanceCents"
> & {
  /** Null for the store's own id. */
  readonly userId: string | null;
};

/**
 * Creates a store with an empty balance and one key for each mode. The keys are returned here only.
 * @throws DomainError request_invalid for a malformed domain, or a domain or user id that another store has;
 *   record_not_found for an unknown organization
 */
export const createStore = (
  { db, clock, actor }: OperatorContext,
  given: NewStore,
): Promise<FirstKeys & { readonly id: string; readonly domain: string }> =>
  db.transaction(async (transaction) => {
    const domain = normalizeDomain(given.domain);
    if (domain === null) {
      throw invalidRequest(`domain: ${given.domain} is not a domain`);
    }
    if (given.organizationId !== null) {
      await getOrganization(transaction, given.organizationId);
    }
    const id = newId();
    const account = { id, type: "store", name: domain } as const;
    await insertAccount(transaction, {
      ...account,
      fractionalCounting: false,
      billingDay: 1,
      stripeCustomerId: null,
      stripeSubscriptionId: null,
      createdAt: clock.now(),
    });
    await insertStore(transaction, {
      ...given,
      id,
      domain,
      userId: given.userId ?? id,
      treePlanting: true,
      plasticRemoval: true,
      donations: true,
    });
    await recordAction(transaction, actor, clock.now(), {
      action: "store.create",
      accountId: id,
      details: { ...given, domain },
    });
    const keys = await issueFirstKeys({ db: transaction, clock, actor }, account);
    return { id, domain, ...keys };
  });
