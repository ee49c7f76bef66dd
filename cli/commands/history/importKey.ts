import { importKey } from "../../../services/history/importKey.ts";
import type { CliContext } from "../../context.ts";
import { readSecret } from "../../input/readSecret.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { openAccount } from "../../accountOptions.ts";
import type { AccountOptions } from "../../accountOptions.ts";
import { keySettingsOf } from "../../apiKeys.ts";
import type { NewKeyOptions } from "../../apiKeys.ts";

export type ImportKeyOptions = ChangeOptions &
  AccountOptions &
  NewKeyOptions & {
    readonly keyFile?: string;
  };

export const runImportKey = async (
  context: CliContext,
  options: ImportKeyOptions,
): Promise<void> => {
  const { io, clock } = context;
  const { mode } = options;
  const { db, account } = await openAccount(context, options);
  const key = await readSecret(io, options.keyFile);
  const { id, hint, isNew } = await importKey(
    { db, clock, actor: actorOf(options) },
    account,
    mode,
    key,
    keySettingsOf(options, clock.now()),
  );
  const result = { id, mode, key: `${hint}…` };
  if (options.json) {
    printJson(io, { ...result, new: isNew });
  } else {
    printRecord(io, result);
  }
  say(io, isNew ? "Imported. The key works now." : "The account has this key already.");
};
