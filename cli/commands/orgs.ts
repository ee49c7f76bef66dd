import type { Command } from "commander";
import type { DatabasePool } from "slonik";
import { listAccountLimits } from "../../modules/accounts/accountLimits.sql.ts";
import { listOrganizations } from "../../modules/accounts/accounts.sql.ts";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import type { InvoicedUsage } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { describeInvoiceProblems } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listWatchedSubscriptions } from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import type { WatchedSubscription } from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import type { DonationSubscription } from "../../modules/charities/donationSubscriptions.sql.ts";
import { readDonationTotals } from "../../modules/charities/donationTotals.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { KINDS, MODES } from "../../modules/records/owner.rules.ts";
import type { Mode, Owner } from "../../modules/records/owner.rules.ts";
import { listSubscriptionProblems } from "../../modules/billing/subscriptions.rules.ts";
import type { DonationTotals } from "../../modules/charities/donations.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { monthOf } from "../../modules/registrations/registrations.rules.ts";
import type { Totals } from "../../modules/registrations/registrations.rules.ts";
import { getOrganization } from "../../modules/accounts/getAccount.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { readDonationSubscription } from "../../modules/charities/subscribeToDonations.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { KEY_COLUMNS, presentKey } from "../apiKeys.ts";
import { parseId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { LIMIT_HEADINGS, limitRows, presentLimits } from "../limitOptions.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printList, printRecord, printRows, printTable } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";
import { presentProfile, profileRecord } from "./orgProfile.ts";
import {
  addCreateCommand,
  addUpdateCommand,
  presentOrganization,
  printOrganization,
} from "./orgSettings.ts";

/** An organization's donations in one mode, and its donation subscription. */
type DonationSummary = {
  readonly mode: Mode;
  readonly totals: DonationTotals;
  readonly subscription: DonationSubscription | null;
};

export const readDonationSummaries = (
  deps: BillingContext,
  account: Account,
): Promise<readonly DonationSummary[]> =>
  Promise.all(
    MODES.map(async (mode) => {
      const totals = await readDonationTotals(deps.db, { accountId: account.id, mode });
      const subscription = await readDonationSubscription(deps, account, mode);
      return { mode, totals, subscription };
    }),
  );

/** The summaries in the JSON output. */
const presentDonationSummaries = (summaries: readonly DonationSummary[]) =>
  summaries.map(({ mode, totals, subscription }) => ({
    mode,
    count: totals.count,
    amount_cents: totals.amountCents,
    subscription: subscription && {
      processor: subscription.processor,
      subscription_id: subscription.subscriptionId,
      active_since: subscription.activeSince,
      has_ended: subscription.hasEnded,
    },
  }));

const describeSubscription = (subscription: DonationSubscription | null): string => {
  if (subscription === null) {
    return "none";
  }
  const { processor, subscriptionId, activeSince, hasEnded } = subscription;
  const where = subscriptionId === null ? processor : `${processor} ${subscriptionId}`;
  if (activeSince === null) {
    return `failed (${where})`;
  }
  return hasEnded ? `ended (${where})` : `active since ${formatTime(activeSince)} (${where})`;
};

export const DONATION_COLUMNS: Columns<DonationSummary> = {
  mode: (summary) => summary.mode,
  donations: (summary) => summary.totals.count,
  amount: (summary) => formatCents(summary.totals.amountCents),
  "donation subscription": (summary) => describeSubscription(summary.subscription),
};

/** Describes what is wrong with an organization's subscription, and with its invoices when they were last compared. */
const listProblems = (
  subscription: WatchedSubscription | null,
  invoiceProblems: readonly InvoicedUsage[],
): readonly string[] => [
  ...(subscription ? listSubscriptionProblems(subscription).map(({ text }) => text) : []),
  ...describeInvoiceProblems(invoiceProblems),
];

const listAll = async ({ io, connections }: CliContext, { json }: JsonOption): Promise<void> => {
  const db = await connections.database();
  const accounts = await listOrganizations(db);
  const watched = await listWatchedSubscriptions(db, null);
  const subscriptions = new Map(
    watched.map((subscription) => [subscription.accountId, subscription]),
  );
  const invoiceProblems = await listInvoicedUsage(db, null, { onlyProblems: true });
  const statusOf = ({ id }: Account): string | null => subscriptions.get(id)?.status ?? null;
  const problemsOf = ({ id }: Account): readonly string[] => {
    const subscription = subscriptions.get(id);
    return listProblems(
      subscription ?? null,
      invoiceProblems.filter(({ accountIds }) => accountIds.includes(id)),
    );
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

const presentSubscription = (
  subscription: WatchedSubscription,
  invoiceProblems: readonly InvoicedUsage[],
) => ({
  status: subscription.status,
  paused_by: subscription.pausedBy,
  priced_meters: subscription.meteredKinds,
  has_donation_items: subscription.hasDonationItems,
  problems: listProblems(subscription, invoiceProblems),
  read_at: subscription.readAt,
});

/** Reads an account's totals of each mode and kind. */
const readAllTotals = (
  db: DatabasePool,
  accountId: string,
  now: Date,
): Promise<readonly { readonly owner: Owner; readonly totals: Totals }[]> => {
  const owners = MODES.flatMap((mode) => KINDS.map((kind): Owner => ({ accountId, mode, kind })));
  return Promise.all(
    owners.map(async (owner) => ({ owner, totals: await readTotals(db, owner, now) })),
  );
};

const showOne = async (context: CliContext, id: string, { json }: JsonOption): Promise<void> => {
  const { io, connections, clock } = context;
  const db = await connections.database();
  const now = clock.now();
  const account = await getOrganization(db, id);
  const dashboardUrl = `${await connections.publicBaseUrl()}/dashboard/${await getDashboardSlug({ db, clock }, id)}`;
  const [owned, donations, keys, [subscription], invoiceProblems, limits, profile] =
    await Promise.all([
      readAllTotals(db, id, now),
      readDonationSummaries({ db, clock, billing: await connections.billing() }, account),
      listApiKeys(db, id),
      listWatchedSubscriptions(db, id),
      listInvoicedUsage(db, id, { onlyProblems: true }),
      listAccountLimits(db, id),
      findProfile(db, id),
    ]);
  if (json) {
    printJson(io, {
      ...presentOrganization(account),
      subscription: subscription ? presentSubscription(subscription, invoiceProblems) : null,
      dashboard_url: dashboardUrl,
      profile: presentProfile(profile),
      totals: owned.map(({ owner: { mode, kind }, totals: { all, month } }) => ({
        mode,
        kind,
        all,
        month,
      })),
      donations: presentDonationSummaries(donations),
      limits: presentLimits(limits),
      keys: keys.map(presentKey),
    });
    return;
  }
  printOrganization(context, account);
  io.stdout.write("\n");
  if (subscription) {
    const { status, meteredKinds, hasDonationItems, readAt } = subscription;
    printRecord(io, {
      subscription: status,
      "priced meters": meteredKinds.join(", "),
      "donation items": hasDonationItems,
      problems: listProblems(subscription, invoiceProblems).join(", "),
      read: readAt,
    });
    io.stdout.write("\n");
  }
  printTable(
    io,
    ["mode", "kind", "all time", monthOf(now)],
    owned.map(({ owner, totals }) => [owner.mode, owner.kind, totals.all, totals.month]),
  );
  io.stdout.write("\n");
  printTable(io, LIMIT_HEADINGS, limitRows(limits));
  io.stdout.write("\n");
  printRows(io, keys, KEY_COLUMNS);
  io.stdout.write("\n");
  printRows(io, donations, DONATION_COLUMNS);
  io.stdout.write("\n");
  printRecord(io, {
    dashboard: dashboardUrl,
    ...profileRecord(profile),
  });
};

export const addOrgCommands = (org: Command, context: CliContext): void => {
  addCreateCommand(org, context);
  org
    .command("list")
    .alias("show")
    .description("List all organizations, or show one with its profile, limits, totals and keys")
    .argument("[id]", "id of the organization", parseId)
    .action((id: string | undefined, options: JsonOption) =>
      id === undefined ? listAll(context, options) : showOne(context, id, options),
    );
  addUpdateCommand(org, context);
};
