import type { CommonQueryMethods } from "slonik";
import type { AccountType, Mode } from "../../../domain/accounts/accounts.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { importKey } from "../../../services/history/importKey.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { readSecret } from "../../input/readSecret.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { findNamedStore } from "../stores/findNamedStore.ts";

export type ImportKeyOptions = OperatorOptions & {
  readonly org?: string;
  readonly store?: string;
  readonly mode: Mode;
  readonly keyFile?: string;
  readonly json?: true;
};

/** Returns the organization or the store that a command is for. */
const findOwner = async (
  db: CommonQueryMethods,
  { org, store }: Pick<ImportKeyOptions, "org" | "store">,
): Promise<{ readonly id: string; readonly type: AccountType }> => {
  if (org !== undefined) {
    return getOrganization(db, org);
  }
  if (store !== undefined) {
    return { id: (await findNamedStore(db, store)).id, type: "store" };
  }
  throw new CommandError(EXIT.usage, "Pass --org or --store.");
};

export const runImportKey = async (
  { io, connections, clock }: Context,
  options: ImportKeyOptions,
): Promise<void> => {
  const { mode } = options;
  const db = await connections.database();
  const owner = await findOwner(db, options);
  const key = await readSecret(io, options.keyFile);
  const { id, hint, isNew } = await importKey(
    { db, clock, actor: actorOf(options) },
    owner,
    mode,
    key,
  );
  const result = { id, mode, key: `${hint}…` };
  if (options.json) {
    printJson(io, { ...result, new: isNew });
  } else {
    printRecord(io, result);
  }
  say(io, isNew ? "Imported. The key works now." : "The account has this key already.");
};
