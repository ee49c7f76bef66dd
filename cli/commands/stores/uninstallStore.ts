import { uninstallStore as uninstall } from "../../../services/stores/uninstallStore.ts";
import { awaitCachedKeys } from "../../apiKeys.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { findNamedStore } from "../../accountOptions.ts";
import { printStore } from "./presentStore.ts";

export const uninstallStore = async (
  context: CliContext,
  idOrDomain: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const { id } = await findNamedStore(deps.db, idOrDomain);
  const { store, wasUninstalledBefore } = await uninstall(deps, id);
  printStore(io, store, { json });
  await awaitCachedKeys(io);
  say(io, "Every API process rejects the store's keys.");
  if (wasUninstalledBefore) {
    say(io, "The store was already uninstalled; its date of uninstallation is unchanged.");
  }
};
