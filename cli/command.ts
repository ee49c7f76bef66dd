import { userInfo } from "node:os";
import type { Command } from "@commander-js/extra-typings";
import type { Actor } from "../modules/accounts/audit.rules.ts";
import type { Clock } from "../runtime/clock.ts";
import { getNamedAccount } from "./accountOptions.ts";
import { parseOperator, parseReason } from "./arguments.ts";
import type { Connections } from "./connections.ts";
import { createPrinter } from "./output/print.ts";
import type { Io } from "./output/print.ts";

/** The options of a command whose changes are in the audit log. */
export type ChangeOptions = {
  readonly as?: string | undefined;
  readonly reason?: string | undefined;
};

export const REASON = ["--reason <text>", "reason for the audit log", parseReason] as const;

export const OPERATOR = [
  "--as <name>",
  "operator for the audit log (default: the user of the operating system)",
  parseOperator,
] as const;

export const addChange = (group: Command, name: string, description: string) =>
  group
    .command(name)
    .description(description)
    .option(...REASON)
    .option(...OPERATOR);

const operatorName = (as: string | undefined): string => {
  if (as !== undefined) {
    return as;
  }
  try {
    return userInfo().username;
  } catch {
    // In a container, the user may have no name.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
};

export const actorOf = ({ as, reason }: ChangeOptions): Extract<Actor, { kind: "operator" }> => ({
  kind: "operator",
  name: operatorName(as),
  reason: reason ?? null,
});

export type Services = { readonly connections: Connections; readonly clock: Clock };

/** Creates what all commands use to open what they need, and to print. */
export const createCli = (io: Io, { connections, clock }: Services) => {
  const openChange = async (options: ChangeOptions) => ({
    db: await connections.database(),
    clock,
    actor: actorOf(options),
  });
  return {
    io,
    connections,
    clock,
    ...createPrinter(io),
    openChange,
    openAccount: async ({ org }: { readonly org: string }) => {
      const db = await connections.database();
      return { db, account: await getNamedAccount(db, org) };
    },
    openBilling: async () => ({
      db: await connections.database(),
      clock,
      billing: await connections.billing(),
    }),
    openBillingChange: async (options: ChangeOptions) => ({
      ...(await openChange(options)),
      billing: await connections.billing(),
    }),
  };
};

export type Cli = ReturnType<typeof createCli>;

export type Define = (command: Command, cli: Cli) => void;
