import type { Account } from "../../../db/accounts/accounts.ts";
import { listAccounts } from "../../../db/accounts/accounts.ts";
import { listWatchedSubscriptions } from "../../../db/billing/stripeSubscriptions.ts";
import type { Context } from "../../context.ts";
import { printJson, printTable } from "../../output/print.ts";
import { presentOrganization } from "./presentOrganization.ts";

export const listOrgs = async (
  { io, connections }: Context,
  { json }: { readonly json?: true },
): Promise<void> => {
  const db = await connections.database();
  const accounts = await listAccounts(db, "organization");
  const watched = await listWatchedSubscriptions(db, null);
  const statuses = new Map(watched.map(({ accountId, status }) => [accountId, status]));
  const statusOf = ({ id }: Account): string | null => statuses.get(id) ?? null;
  if (json) {
    printJson(
      io,
      accounts.map((account) => ({
        ...presentOrganization(account),
        subscription_status: statusOf(account),
      })),
    );
    return;
  }
  printTable(
    io,
    ["id", "name", "billing day", "stripe customer", "subscription", "policy", "created"],
    accounts.map((account) => [
      account.id,
      account.name,
      account.billingDay,
      account.stripeCustomerId,
      statusOf(account),
      account.subscriptionPolicy,
      account.createdAt,
    ]),
  );
};
