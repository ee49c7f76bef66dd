import { listAccounts } from "../../../db/accounts/accounts.ts";
import type { Context } from "../../context.ts";
import { printJson, printTable } from "../../output/print.ts";
import { presentOrganization } from "./presentOrganization.ts";

export const listOrgs = async (
  { io, connections }: Context,
  { json }: { readonly json?: true },
): Promise<void> => {
  const accounts = await listAccounts(await connections.database(), "organization");
  if (json) {
    printJson(io, accounts.map(presentOrganization));
    return;
  }
  printTable(
    io,
    ["id", "name", "billing day", "stripe customer", "created"],
    accounts.map((account) => [
      account.id,
      account.name,
      account.billingDay,
      account.stripeCustomerId,
      account.createdAt,
    ]),
  );
};
