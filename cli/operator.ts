import { userInfo } from "node:os";
import { Option } from "@commander-js/extra-typings";
import type { Command, OptionValues } from "@commander-js/extra-typings";
import type { Actor } from "../modules/accounts/audit.rules.ts";
import type { OperatorContext } from "../modules/accounts/context.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import { parseOperator, parseReason } from "./arguments.ts";
import type { CliContext } from "./context.ts";

export type ChangeOptions = {
  readonly as?: string | undefined;
  readonly reason?: string | undefined;
};

export const operatorOption = () =>
  new Option(
    "--as <name>",
    "operator for the audit log (default: the user of the operating system)",
  ).argParser(parseOperator);

export const reasonOption = () =>
  new Option("--reason <text>", "reason for the audit log").argParser(parseReason);

export const withAudit = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) => command.addOption(reasonOption()).addOption(operatorOption());

/** Returns who runs a command: the name given with `--as`, or else the user of the operating system. */
export const operatorName = (as: string | undefined): string => {
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

export const openChange = async (
  { connections, clock }: CliContext,
  options: ChangeOptions,
): Promise<OperatorContext<ReturnType<typeof actorOf>>> => ({
  db: await connections.database(),
  clock,
  actor: actorOf(options),
});

export const openBillingChange = async (
  context: CliContext,
  options: ChangeOptions,
): Promise<BillingContext & OperatorContext> => ({
  ...(await openChange(context, options)),
  billing: await context.connections.billing(),
});
