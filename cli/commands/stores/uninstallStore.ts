import { uninstallStore as uninstall } from "../../../services/stores/uninstallStore.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { findNamedStore } from "./findNamedStore.ts";
import { printStore } from "./presentStore.ts";

export const uninstallStore = async (
  { io, connections, clock }: Context,
  idOrDomain: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const db = await connections.database();
  const { id } = await findNamedStore(db, idOrDomain);
  const { store, wasUninstalledBefore } = await uninstall(
    { db, clock, actor: actorOf(operator) },
    id,
  );
  printStore(io, store, { json });
  if (wasUninstalledBefore) {
    say(io, "The store was already uninstalled; its date of uninstallation is unchanged.");
  }
};
