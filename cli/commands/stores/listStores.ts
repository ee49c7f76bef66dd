import { KINDS } from "../../../domain/accounts/accounts.ts";
import { listStores as list } from "../../../db/stores/stores.ts";
import type { Store } from "../../../db/stores/stores.ts";
import { formatCents } from "../../../domain/money.ts";
import type { CliContext } from "../../context.ts";
import { printList } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { presentStore } from "./presentStore.ts";

export const listStores = async (
  { io, connections }: CliContext,
  { json }: JsonOption,
): Promise<void> => {
  const stores = await list(await connections.database());
  printList({ io, json }, stores, presentStore, {
    "store id": (store) => store.id,
    domain: (store) => store.domain,
    balance: (store) => formatCents(store.balanceCents),
    ...Object.fromEntries(
      KINDS.map((kind) => [kind, (store: Store) => formatCents(store[`${kind}PriceCents`])]),
    ),
    created: (store) => store.createdAt,
    uninstalled: (store) => store.uninstalledAt,
  });
};
