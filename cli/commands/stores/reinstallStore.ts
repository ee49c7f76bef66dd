import { reinstallStore as reinstall } from "../../../services/stores/reinstallStore.ts";
import type { Context } from "../../context.ts";
import { actorOf } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { findNamedStore } from "./findNamedStore.ts";
import { printStore } from "./presentStore.ts";

export const reinstallStore = async (
  { io, connections, clock }: Context,
  idOrDomain: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const db = await connections.database();
  const { id } = await findNamedStore(db, idOrDomain);
  printStore(io, await reinstall({ db, clock, actor: actorOf(operator) }, id), { json });
};
