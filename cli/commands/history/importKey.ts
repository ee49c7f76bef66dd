import type { Mode } from "../../../domain/accounts/accounts.ts";
import { importKey } from "../../../services/history/importKey.ts";
import type { Context } from "../../context.ts";
import { readSecret } from "../../input/readSecret.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { findOwner } from "./findOwner.ts";
import type { OwnerOptions } from "./findOwner.ts";

export type ImportKeyOptions = OperatorOptions &
  OwnerOptions & {
    readonly mode: Mode;
    readonly keyFile?: string;
    readonly json?: true;
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
