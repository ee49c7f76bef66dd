import type { Command } from "@commander-js/extra-typings";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { issueKey, revokeKey } from "../../modules/accounts/manageKeys.ts";
import { openAccount, requiredAccount } from "../accountOptions.ts";
import { MODE, addKeySettings, awaitCachedKeys, presentKey } from "../apiKeys.ts";
import { parseId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { actorOf, openChange, withAudit } from "../operator.ts";
import { printDetails, printList } from "../output/print.ts";

const LIST_HELP = `
Times are in UTC. "Last used" names the hour only, and may appear an hour late.`;

const addListCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("list")
    .description("List the keys of an organization or a store")
    .addOption(requiredAccount())
    .addHelpText("after", LIST_HELP)
    .action(async (options) => {
      const { io } = context;
      const { db, account } = await openAccount(context, options);
      printList(io, (await listApiKeys(db, account.id)).map(presentKey));
    });
};

const ISSUE_HELP = `
A read-only key can list, search and show; plant, rescue, donate, refund and all other
POST requests are rejected with a 403. An expired key is rejected like an unknown one.
  impact key issue --org ID --mode live --name "reporting" --scope read --expires 90d`;

const addIssueCommand = (parent: Command, context: CliContext): void => {
  const issue = withAudit(
    parent
      .command("issue")
      .description("Issue another key to an organization or a store and print it, once")
      .addOption(requiredAccount())
      .requiredOption(...MODE),
  ).addHelpText("after", ISSUE_HELP);
  const readSettings = addKeySettings(issue, "unnamed");
  issue.action(async (options) => {
    const { io, clock } = context;
    const { mode } = options;
    const { db, account } = await openAccount(context, options);
    const settings = readSettings(clock.now());
    const change = { db, clock, actor: actorOf(options) };
    const { id, key } = await issueKey(change, account, mode, settings);
    const { name, scope, expiresAt } = settings;
    printDetails(io, { id, name, mode, scope, expires_at: expiresAt, key });
    say(io, "Save this key now; it cannot be shown again. Older keys stay valid until revoked.");
  });
};

const addRevokeCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("revoke")
      .description("Revoke a key permanently")
      .argument("<key-id>", "id of the key, from `key list`", parseId),
  ).action(async (id, operator) => {
    const { io } = context;
    const deps = await openChange(context, operator);
    const { key, wasLast } = await revokeKey(deps, id);
    printDetails(io, presentKey(key));
    await awaitCachedKeys(io);
    say(io, "Revoked. Every API process rejects the key.");
    if (wasLast) {
      say(io, `The account has no valid ${key.mode} key left.`);
    }
  });
};

export const addKeyCommands = (key: Command, context: CliContext): void => {
  addListCommand(key, context);
  addIssueCommand(key, context);
  addRevokeCommand(key, context);
};
