import { listStores as list } from "../../../db/stores/stores.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Context } from "../../context.ts";
import { printJson, printTable } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { presentStore } from "./presentStore.ts";

export const listStores = async (
  { io, connections }: Context,
  { json }: JsonOption,
): Promise<void> => {
  const stores = await list(await connections.database());
  if (json) {
    printJson(io, stores.map(presentStore));
    return;
  }
  printTable(
    io,
    ["store id", "domain", "balance", "tree", "bottle", "created", "uninstalled"],
    stores.map((store) => [
      store.id,
      store.domain,
      formatCents(store.balanceCents),
      formatCents(store.treePriceCents),
      formatCents(store.bottlePriceCents),
      store.createdAt,
      store.uninstalledAt,
    ]),
  );
};
