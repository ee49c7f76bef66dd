import type { BalanceEntry } from "../../../db/stores/balances.ts";
import type { Store } from "../../../db/stores/stores.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Context } from "../../context.ts";
import type { Cell } from "../../output/formatTable.ts";
import { printRecord } from "../../output/print.ts";

/** A store as programs read it. */
export const presentStore = (store: Store) => ({
  id: store.id,
  domain: store.domain,
  user_id: store.userId,
  organization_id: store.organizationId,
  balance_cents: store.balanceCents,
  low_balance_cents: store.lowBalanceCents,
  prices: { tree_cents: store.treePriceCents, bottle_cents: store.bottlePriceCents },
  features: {
    tree_planting: store.treePlanting,
    plastic_removal: store.plasticRemoval,
    donations: store.donations,
  },
  uninstalled_at: store.uninstalledAt,
  created_at: store.createdAt,
});

export const printStore = ({ io }: Context, store: Store): void => {
  printRecord(io, {
    id: store.id,
    domain: store.domain,
    "user id": store.userId,
    organization: store.organizationId,
    balance: formatCents(store.balanceCents),
    "low below": formatCents(store.lowBalanceCents),
    "tree price": formatCents(store.treePriceCents),
    "bottle price": formatCents(store.bottlePriceCents),
    "tree planting": store.treePlanting,
    "plastic removal": store.plasticRemoval,
    donations: store.donations,
    uninstalled: store.uninstalledAt,
    created: store.createdAt,
  });
};

/** A line of a store's books as programs read it. */
export const presentEntry = (entry: BalanceEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.registrationId ?? entry.donationId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});

export const ENTRY_HEADINGS = [
  "entry",
  "at",
  "kind",
  "quantity",
  "amount",
  "balance",
  "reference",
  "note",
];

export const entryRow = (entry: BalanceEntry): readonly Cell[] => [
  entry.id,
  entry.createdAt,
  entry.kind,
  entry.quantity,
  formatCents(entry.amountCents),
  formatCents(entry.balanceCents),
  entry.reference,
  entry.note,
];
