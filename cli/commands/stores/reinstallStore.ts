import { reinstallStore as reinstall } from "../../../services/stores/reinstallStore.ts";
import type { CliContext } from "../../context.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { findNamedStore } from "../../accountOptions.ts";
import { printStore } from "./presentStore.ts";

export const reinstallStore = async (
  context: CliContext,
  idOrDomain: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const { id } = await findNamedStore(deps.db, idOrDomain);
  printStore(io, await reinstall(deps, id), { json });
};
