import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { Kind } from "../../../domain/accounts/accounts.ts";
import type { Store } from "../../../db/stores/stores.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Io } from "../../io.ts";
import { printJson, printRecord } from "../../output/print.ts";

/** Returns a store as JSON output shows it. */
export const presentStore = (store: Store) => ({
  id: store.id,
  domain: store.domain,
  user_id: store.userId,
  organization_id: store.organizationId,
  balance_cents: store.balanceCents,
  low_balance_cents: store.lowBalanceCents,
  prices: {
    tree_cents: store.treePriceCents,
    bottle_cents: store.bottlePriceCents,
  } satisfies Record<`${Kind}_cents`, number>,
  features: {
    tree_planting: store.treePlanting,
    plastic_removal: store.plasticRemoval,
    donations: store.donations,
  },
  charity_provider: store.charityProvider,
  uninstalled_at: store.uninstalledAt,
  created_at: store.createdAt,
});

export const printStore = (
  io: Io,
  store: Store,
  { json }: { readonly json?: true | undefined },
): void => {
  if (json) {
    printJson(io, presentStore(store));
    return;
  }
  printRecord(io, {
    id: store.id,
    domain: store.domain,
    "user id": store.userId,
    organization: store.organizationId,
    balance: formatCents(store.balanceCents),
    "low-balance threshold": formatCents(store.lowBalanceCents),
    ...Object.fromEntries(
      KINDS.map((kind) => [`${kind} price`, formatCents(store[`${kind}PriceCents`])]),
    ),
    "tree planting": store.treePlanting,
    "plastic removal": store.plasticRemoval,
    donations: store.donations,
    "charity provider": store.charityProvider,
    uninstalled: store.uninstalledAt,
    created: store.createdAt,
  });
};
