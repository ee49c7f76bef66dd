import type { Command } from "commander";
import { listApiKeys } from "../../../db/accounts/apiKeys.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { issueKey } from "../../../services/accounts/issueKey.ts";
import { revokeKey } from "../../../services/accounts/revokeKey.ts";
import { parseId, parseMode } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { KEY_HEADINGS, keyRows, presentKey } from "../../output/presentKey.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";

type OrgOptions = { readonly org: string; readonly json?: true };

const list = async ({ io, connections }: Context, { org, json }: OrgOptions): Promise<void> => {
  const db = await connections.database();
  await getOrganization(db, org);
  const keys = await listApiKeys(db, org);
  if (json) {
    printJson(io, keys.map(presentKey));
  } else {
    printTable(io, KEY_HEADINGS, keyRows(keys));
  }
};

const issue = async (
  { io, connections, clock }: Context,
  { org, mode, json }: OrgOptions & { readonly mode: Mode },
): Promise<void> => {
  const db = await connections.database();
  const { id, key } = await issueKey({ db, clock }, await getOrganization(db, org), mode);
  if (json) {
    printJson(io, { id, mode, key });
  } else {
    printRecord(io, { id, mode, key });
  }
  say(io, "The key is shown only now: keep it. The older keys stay valid until they are revoked.");
};

const revoke = async (
  { io, connections, clock }: Context,
  id: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const { key, wasLast } = await revokeKey({ db, clock }, id);
  if (json) {
    printJson(io, presentKey(key));
  } else {
    printTable(io, KEY_HEADINGS, keyRows([key]));
  }
  say(io, "It stops working within 5 seconds, everywhere.");
  if (wasLast) {
    say(io, `The account has no ${key.mode} key any more.`);
  }
};

export const addKeyCommands = (program: Command, context: Context): void => {
  const key = program
    .command("key")
    .description("API keys; several may be valid at once, so that they can be rotated");
  key
    .command("list")
    .description("list an organization's keys by what they start with; store show lists a store's")
    .requiredOption("--org <id>", "the organization", parseId)
    .option("--json", "print JSON")
    .action((options: OrgOptions) => list(context, options));
  key
    .command("issue")
    .description("issue a further key and print it, once")
    .requiredOption("--org <id>", "the organization", parseId)
    .requiredOption("--mode <mode>", "live or test", parseMode)
    .option("--json", "print JSON")
    .action((options: OrgOptions & { readonly mode: Mode }) => issue(context, options));
  key
    .command("revoke")
    .description("revoke a key for good")
    .argument(
      "<key-id>",
      "the key's id, as `impact key list` shows it, or `impact store show` a store's",
      parseId,
    )
    .option("--json", "print JSON")
    .action((id: string, options: { readonly json?: true }) => revoke(context, id, options));
};
