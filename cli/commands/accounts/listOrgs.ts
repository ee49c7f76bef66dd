import type { Account } from "../../../db/accounts/accounts.ts";
import { listOrganizations } from "../../../db/accounts/accounts.ts";
import { listWatchedSubscriptions } from "../../../db/billing/processorEvents/stripeSubscriptions.ts";
import { listSubscriptionProblems } from "../../../domain/billing/subscriptions.ts";
import type { CliContext } from "../../context.ts";
import { printList } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { presentOrganization } from "./presentOrganization.ts";

export const listOrgs = async (
  { io, connections }: CliContext,
  { json }: JsonOption,
): Promise<void> => {
  const db = await connections.database();
  const accounts = await listOrganizations(db);
  const watched = await listWatchedSubscriptions(db, null);
  const subscriptions = new Map(
    watched.map((subscription) => [subscription.accountId, subscription]),
  );
  const statusOf = ({ id }: Account): string | null => subscriptions.get(id)?.status ?? null;
  const problemsOf = ({ id }: Account): readonly string[] => {
    const subscription = subscriptions.get(id);
    return subscription ? listSubscriptionProblems(subscription).map(({ text }) => text) : [];
  };
  printList(
    { io, json },
    accounts,
    (account) => ({
      ...presentOrganization(account),
      subscription_status: statusOf(account),
      subscription_problems: problemsOf(account),
    }),
    {
      id: (account) => account.id,
      name: (account) => account.name,
      "billing day": (account) => account.billingDay,
      "stripe customer": (account) => account.stripeCustomerId,
      subscription: (account) => statusOf(account),
      problems: (account) => problemsOf(account).join(", "),
      policy: (account) => account.subscriptionPolicy,
      created: (account) => account.createdAt,
    },
  );
};
