import type { Command } from "@commander-js/extra-typings";
import { openAccount } from "./accountOptions.ts";
import type { AccountOption } from "./accountOptions.ts";
import { openBilling } from "./context.ts";
import type { CliContext } from "./context.ts";
import { say } from "./io.ts";
import { openBillingChange, openChange, withAudit } from "./operator.ts";
import type { ChangeOptions } from "./operator.ts";
import { printDetails, printList, printResult } from "./output/print.ts";
import type { Fields } from "./output/print.ts";

/** Creates what all commands use to open what they need, and to print. */
export const createCli = (context: CliContext) => {
  const { io } = context;
  return {
    ...context,
    openAccount: (options: AccountOption) => openAccount(context, options),
    openBilling: () => openBilling(context),
    openChange: (options: ChangeOptions) => openChange(context, options),
    openBillingChange: (options: ChangeOptions) => openBillingChange(context, options),
    printResult: (value: unknown, print?: () => void) => printResult(io, value, print),
    printList: (rows: readonly Fields[], shown?: readonly Fields[]) => printList(io, rows, shown),
    printDetails: (document: Fields, shown?: Fields) => printDetails(io, document, shown),
    say: (sentence: string) => say(io, sentence),
  };
};

export type Cli = ReturnType<typeof createCli>;

/** Defines a command, or adds the commands of a group. */
export type Define = (command: Command, cli: Cli) => void;

/** Adds a command whose changes are in the audit log. */
export const addAudited = <Name extends string>(group: Command, name: Name, description: string) =>
  withAudit(group.command(name).description(description));
