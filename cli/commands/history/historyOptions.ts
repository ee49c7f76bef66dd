import type { Command } from "commander";
import { Option } from "commander";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { LINE_KINDS } from "../../../domain/history/importedRecords.ts";
import type { LineKind } from "../../../domain/history/importedRecords.ts";
import { parseMode, parseSource } from "../../arguments.ts";
import { withAccount } from "../../accountOptions.ts";
import type { AccountOptions } from "../../accountOptions.ts";

export type HistoryOptions = AccountOptions & {
  readonly mode: Mode;
  readonly kind?: LineKind;
  readonly source?: string;
};

/** Adds the files of a history and the options that say whose records they hold. */
export const withHistory = (command: Command): Command =>
  withAccount(command.argument("<files...>", "paths of files, or - for standard input"))
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(new Option("--kind <kind>", "kind of the lines without a kind").choices(LINE_KINDS))
    .option("--source <name>", "system from which the evidence is imported", parseSource);
