import type { DatabasePool } from "slonik";
import { listAccountLimits } from "../../modules/accounts/accountLimits.sql.ts";
import { listOrganizations } from "../../modules/accounts/accounts.sql.ts";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import type { InvoicedUsage } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { describeInvoiceProblems } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listWatchedSubscriptions } from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import type { KnownSubscription } from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { readDonor } from "../../modules/charities/donationSubscriptions.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { KINDS, MODES } from "../../modules/records/owner.rules.ts";
import { listSubscriptionProblems } from "../../modules/billing/subscriptions.rules.ts";
import { getOrganization } from "../../modules/accounts/getAccount.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { subscriptionStateOf } from "../../modules/charities/subscribeToDonations.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { presentKey } from "../apiKeys.ts";
import { ORGANIZATION, getNamedAccount } from "../accountOptions.ts";
import type { Cli, Define } from "../command.ts";
import { only, snakeCased } from "../output/print.ts";
import { presentLimits } from "../settings.ts";
import { presentProfile } from "./orgProfile.ts";
import { addCreateCommand, addUpdateCommand } from "./orgSettings.ts";

export const readDonations = (context: BillingContext, accountId: string) =>
  Promise.all(
    MODES.map(async (mode) => {
      const donor = await readDonor(context.db, { accountId, mode }, []);
      return {
        mode,
        count: donor.count,
        amount_cents: donor.totalCents,
        subscription: subscriptionStateOf(context, donor, mode),
        processor: donor.processor,
        subscription_id: donor.subscriptionId,
        active_since: donor.activeSince,
      };
    }),
  );

/** Describes what is wrong with an organization's subscription, and with its invoices when they were last compared. */
const listProblems = (
  subscription: KnownSubscription | null,
  invoiceProblems: readonly InvoicedUsage[],
): readonly string[] => [
  ...(subscription ? listSubscriptionProblems(subscription).map(({ text }) => text) : []),
  ...describeInvoiceProblems(invoiceProblems),
];

const COLUMNS =
  "id name billing_day stripe_customer_id subscription_status subscription_problems subscription_policy created_at".split(
    " ",
  );

const listAll = async ({ connections, printList }: Cli): Promise<void> => {
  const db = await connections.database();
  const accounts = await listOrganizations(db);
  const watched = await listWatchedSubscriptions(db, null);
  const subscriptions = new Map(watched.map((each) => [each.accountId, each]));
  const invoiceProblems = await listInvoicedUsage(db, null, { onlyProblems: true });
  const rows = accounts.map((account) => {
    const subscription = subscriptions.get(account.id) ?? null;
    const own = invoiceProblems.filter(({ accountIds }) => accountIds.includes(account.id));
    return Object.assign(snakeCased(account), {
      subscription_status: subscription?.status ?? null,
      subscription_problems: listProblems(subscription, own),
    });
  });
  printList(rows, only(rows, COLUMNS));
};

const readAllTotals = (db: DatabasePool, accountId: string, now: Date) =>
  Promise.all(
    MODES.flatMap((mode) =>
      KINDS.map(async (kind) => {
        const { all, month } = await readTotals(db, { accountId, mode, kind }, now);
        return { mode, kind, all, month };
      }),
    ),
  );

const showOne = async ({ connections, clock, openBilling, printDetails }: Cli, named: string) => {
  const db = await connections.database();
  const { id } = await getNamedAccount(db, named);
  const account = await getOrganization(db, id);
  const dashboardUrl = `${await connections.publicBaseUrl()}/dashboard/${await getDashboardSlug({ db, clock }, id)}`;
  const [totals, donations, keys, [subscription], invoiceProblems, limits, profile] =
    await Promise.all([
      readAllTotals(db, id, clock.now()),
      readDonations(await openBilling(), id),
      listApiKeys(db, id),
      listWatchedSubscriptions(db, id),
      listInvoicedUsage(db, id, { onlyProblems: true }),
      listAccountLimits(db, id),
      findProfile(db, id),
    ]);
  printDetails({
    ...snakeCased(account),
    subscription: subscription
      ? { ...snakeCased(subscription), problems: listProblems(subscription, invoiceProblems) }
      : null,
    dashboard_url: dashboardUrl,
    profile: presentProfile(profile),
    totals,
    donations,
    limits: presentLimits(limits),
    keys: keys.map(presentKey),
  });
};

export const addOrgCommands: Define = (org, cli) => {
  addCreateCommand(org, cli);
  org
    .command("list")
    .alias("show")
    .description("List all organizations, or show one with its profile, limits, totals and keys")
    .argument("[org]", ORGANIZATION[1], ORGANIZATION[2])
    .action((named) => (named === undefined ? listAll(cli) : showOne(cli, named)));
  addUpdateCommand(org, cli);
};
