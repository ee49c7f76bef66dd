import type { Command } from "commander";
import { Option } from "commander";
import type { CommonQueryMethods } from "slonik";
import { listApiKeys } from "../../../db/accounts/apiKeys.ts";
import type { AccountType, Mode } from "../../../domain/accounts/accounts.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { issueKey } from "../../../services/accounts/issueKey.ts";
import { revokeKey } from "../../../services/accounts/revokeKey.ts";
import { parseId, parseMode } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { actorOf, operatorOption, reasonOption } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { KEY_HEADINGS, keyRows, presentKey } from "../../output/presentKey.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { findNamedStore } from "../stores/findNamedStore.ts";

type JsonOption = { readonly json?: true };

const list = async (
  { io, connections }: Context,
  { org, json }: JsonOption & { readonly org: string },
): Promise<void> => {
  const db = await connections.database();
  await getOrganization(db, org);
  const keys = await listApiKeys(db, org);
  if (json) {
    printJson(io, keys.map(presentKey));
  } else {
    printTable(io, KEY_HEADINGS, keyRows(keys));
  }
};

type IssueOptions = JsonOption &
  OperatorOptions & {
    readonly org?: string;
    readonly store?: string;
    readonly mode: Mode;
  };

const findAccountOfKey = async (
  db: CommonQueryMethods,
  { org, store }: IssueOptions,
): Promise<{ readonly id: string; readonly type: AccountType }> => {
  if (org !== undefined) {
    return getOrganization(db, org);
  }
  if (store !== undefined) {
    return { id: (await findNamedStore(db, store)).id, type: "store" };
  }
  throw new CommandError(EXIT.usage, "Pass --org or --store.");
};

const issue = async ({ io, connections, clock }: Context, options: IssueOptions): Promise<void> => {
  const db = await connections.database();
  const { mode, json } = options;
  const { id, key } = await issueKey(
    { db, clock, actor: actorOf(options) },
    await findAccountOfKey(db, options),
    mode,
  );
  if (json) {
    printJson(io, { id, mode, key });
  } else {
    printRecord(io, { id, mode, key });
  }
  say(io, "Save this key now; it cannot be shown again. Older keys stay valid until revoked.");
};

const revoke = async (
  { io, connections, clock }: Context,
  id: string,
  { json, ...operator }: JsonOption & OperatorOptions,
): Promise<void> => {
  const db = await connections.database();
  const { key, wasLast } = await revokeKey({ db, clock, actor: actorOf(operator) }, id);
  if (json) {
    printJson(io, presentKey(key));
  } else {
    printTable(io, KEY_HEADINGS, keyRows([key]));
  }
  say(io, "Revoked. Every API process rejects the key within 5 seconds.");
  if (wasLast) {
    say(io, `The account has no valid ${key.mode} key left.`);
  }
};

export const addKeyCommands = (program: Command, context: Context): void => {
  const key = program
    .command("key")
    .description("Manage API keys; an account can have several, so that they can be rotated");
  key
    .command("list")
    .description("List an organization's keys; `store show` lists a store's")
    .requiredOption("--org <id>", "id of the organization", parseId)
    .option("--json", "JSON output")
    .action((options: JsonOption & { readonly org: string }) => list(context, options));
  key
    .command("issue")
    .description("Issue another key to an organization or a store and print it, once")
    .addOption(
      new Option("--org <id>", "id of the organization").argParser(parseId).conflicts("store"),
    )
    .option("--store <store>", "domain or id of the store")
    .requiredOption("--mode <live|test>", "mode of the key", parseMode)
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--json", "JSON output")
    .action((options: IssueOptions) => issue(context, options));
  key
    .command("revoke")
    .description("Revoke a key permanently")
    .argument("<key-id>", "id of the key, from `key list` or `store show`", parseId)
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--json", "JSON output")
    .action((id: string, options: JsonOption & OperatorOptions) => revoke(context, id, options));
};
