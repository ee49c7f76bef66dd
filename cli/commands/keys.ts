import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { issueKey, revokeKey } from "../../modules/accounts/manageKeys.ts";
import { ACCOUNT_OPTION } from "../accountOptions.ts";
import { MODE, addKeySettings, awaitCachedKeys, presentKey } from "../apiKeys.ts";
import { parseId } from "../arguments.ts";
import { addChange } from "../command.ts";
import type { Define } from "../command.ts";

const LIST_HELP = `
Times are in UTC. "Last used" names the hour only, and may appear an hour late.`;

const ISSUE_HELP = `
A read-only key can list, search and show; plant, rescue, donate, refund and all other
POST requests are rejected with a 403. An expired key is rejected like an unknown one.
  impact key issue --org ID --mode live --name "reporting" --scope read --expires 90d`;

export const addKeyCommands: Define = (group, cli) => {
  group
    .command("list")
    .description("List the keys of an organization or a store")
    .requiredOption(...ACCOUNT_OPTION)
    .addHelpText("after", LIST_HELP)
    .action(async (options) => {
      const { db, account } = await cli.openAccount(options);
      cli.printList((await listApiKeys(db, account.id)).map(presentKey));
    });

  const issue = addChange(
    group,
    "issue",
    "Issue another key to an organization or a store and print it, once",
  )
    .requiredOption(...ACCOUNT_OPTION)
    .requiredOption(...MODE)
    .addHelpText("after", ISSUE_HELP);
  const readSettings = addKeySettings(issue, "unnamed");
  issue.action(async (options) => {
    const { mode } = options;
    const { account } = await cli.openAccount(options);
    const settings = readSettings(cli.clock.now());
    const { id, key } = await issueKey(await cli.openChange(options), account, mode, settings);
    const { name, scope, expiresAt } = settings;
    cli.printDetails({ id, name, mode, scope, expires_at: expiresAt, key });
    cli.say("Save this key now; it cannot be shown again. Older keys stay valid until revoked.");
  });

  addChange(group, "revoke", "Revoke a key permanently")
    .argument("<key-id>", "id of the key, from `key list`", parseId)
    .action(async (id, operator) => {
      const { key, wasLast } = await revokeKey(await cli.openChange(operator), id);
      cli.printDetails(presentKey(key));
      await awaitCachedKeys(cli);
      cli.say("Revoked. Every API process rejects the key.");
      if (wasLast) {
        cli.say(`The account has no valid ${key.mode} key left.`);
      }
    });
};
