import { updateStore } from "../../../services/stores/updateStore.ts";
import type { Context } from "../../context.ts";
import { findNamedStore } from "./findNamedStore.ts";
import { printStore } from "./presentStore.ts";

export const reinstallStore = async (
  { io, connections }: Context,
  idOrDomain: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const { id } = await findNamedStore(db, idOrDomain);
  printStore(io, await updateStore({ db }, id, { uninstalledAt: null }), { json });
};
