import { listAccountLimits } from "../../../db/accounts/accountLimits.ts";
import { listApiKeys } from "../../../db/accounts/apiKeys.ts";
import type { CliContext } from "../../context.ts";
import { printJson, printRows, printTable } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { KEY_COLUMNS, presentKey } from "../../apiKeys.ts";
import { LIMIT_HEADINGS, limitRows, presentLimits } from "../../limitOptions.ts";
import { findNamedStore } from "../../accountOptions.ts";
import { presentStore, printStore } from "./presentStore.ts";

export const showStore = async (
  { io, connections }: CliContext,
  idOrDomain: string,
  { json }: JsonOption,
): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, idOrDomain);
  const keys = await listApiKeys(db, store.id);
  const limits = await listAccountLimits(db, store.id);
  if (json) {
    printJson(io, {
      ...presentStore(store),
      limits: presentLimits(limits),
      keys: keys.map(presentKey),
    });
    return;
  }
  printStore(io, store, {});
  io.stdout.write("\n");
  printTable(io, LIMIT_HEADINGS, limitRows(limits));
  io.stdout.write("\n");
  printRows(io, keys, KEY_COLUMNS);
};
