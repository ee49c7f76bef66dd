import type { Command } from "commander";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import type { Account, AccountChanges } from "../../../db/accounts/accounts.ts";
import { listAccounts } from "../../../db/accounts/accounts.ts";
import type { ApiKey } from "../../../db/accounts/apiKeys.ts";
import { listApiKeys } from "../../../db/accounts/apiKeys.ts";
import { readTotals } from "../../../db/registrations/totals.ts";
import { KINDS, MODES } from "../../../domain/accounts/accounts.ts";
import type { CharityProviderName } from "../../../domain/charities/charities.ts";
import { CHARITY_PROVIDERS } from "../../../domain/charities/charities.ts";
import type { Clock } from "../../../domain/clock.ts";
import { monthOf } from "../../../domain/registrations/registrations.ts";
import type { Owner, Totals } from "../../../domain/registrations/registrations.ts";
import { text } from "../../../domain/fields.ts";
import { createOrganization } from "../../../services/accounts/createOrganization.ts";
import { getDashboardSlug } from "../../../services/dashboard/getDashboardSlug.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { updateOrganization } from "../../../services/accounts/updateOrganization.ts";
import {
  NONE,
  orNone,
  parseBillingDay,
  parseId,
  parserOf,
  parseStripeCustomer,
  parseStripeSubscription,
  parseSwitch,
} from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, describeError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import {
  DONATION_HEADINGS,
  donationRows,
  presentDonationBooks,
  readDonationBooks,
} from "../../output/presentDonations.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { keyRows, KEY_HEADINGS, presentKey } from "../../output/presentKey.ts";

const parseName = parserOf(
  text(200).refine((name) => name.trim() !== ""),
  "a name of 1 to 200 characters",
);

const parseCharityProvider = parserOf(
  z.enum(CHARITY_PROVIDERS),
  `one of ${CHARITY_PROVIDERS.join(", ")}`,
);

const presentOrganization = (account: Account) => ({
  id: account.id,
  name: account.name,
  fractional_counting: account.fractionalCounting,
  billing_day: account.billingDay,
  stripe_customer_id: account.stripeCustomerId,
  stripe_subscription_id: account.stripeSubscriptionId,
  charity_provider: account.charityProvider,
  created_at: account.createdAt,
});

const printOrganization = ({ io }: Context, account: Account): void => {
  printRecord(io, {
    id: account.id,
    name: account.name,
    "fractional counting": account.fractionalCounting,
    "billing day": account.billingDay,
    "stripe customer": account.stripeCustomerId,
    "stripe subscription": account.stripeSubscriptionId,
    "charity provider": account.charityProvider,
    created: account.createdAt,
  });
};

type OwnTotals = { readonly owner: Owner; readonly totals: Totals };

const readAllTotals = (
  db: DatabasePool,
  clock: Clock,
  accountId: string,
): Promise<readonly OwnTotals[]> => {
  const now = clock.now();
  const owners = MODES.flatMap((mode) => KINDS.map((kind): Owner => ({ accountId, mode, kind })));
  return Promise.all(
    owners.map(async (owner) => ({ owner, totals: await readTotals(db, owner, now) })),
  );
};

const printDetails = (
  context: Context,
  account: Account,
  books: readonly OwnTotals[],
  keys: readonly ApiKey[],
): void => {
  const { io, clock } = context;
  printOrganization(context, account);
  io.stdout.write("\n");
  printTable(
    io,
    ["mode", "kind", "all time", monthOf(clock.now())],
    books.map(({ owner, totals }) => [owner.mode, owner.kind, totals.all, totals.month]),
  );
  io.stdout.write("\n");
  printTable(io, KEY_HEADINGS, keyRows(keys));
};

/**
 * Without a customer Stripe takes no usage, and a subscription without a price on a meter takes it and never bills it, so
 * the person hears of it at once.
 */
const warnOfBilling = async (
  { io, connections }: Context,
  customerId: string | null,
  subscriptionId: string | null,
): Promise<void> => {
  const stripe = connections.stripe();
  if (stripe === null) {
    return;
  }
  if (customerId === null) {
    say(io, "Warning: it has no Stripe customer, so its live usage is refused until it has one.");
  }
  if (subscriptionId === null) {
    return;
  }
  try {
    for (const fault of await stripe.inspectSubscription(customerId, subscriptionId)) {
      say(io, `Warning: ${fault}`);
    }
  } catch (error) {
    say(io, `Warning: Stripe could not be asked about it: ${describeError(error)}`);
  }
};

type CreateOptions = {
  readonly name: string;
  readonly fractional?: true;
  readonly billingDay: number;
  readonly stripeCustomer?: string;
  readonly stripeSubscription?: string;
  readonly json?: true;
};

const create = async (context: Context, options: CreateOptions): Promise<void> => {
  const { io, connections, clock } = context;
  const { stripeCustomer = null, stripeSubscription = null } = options;
  if (stripeSubscription !== null && stripeCustomer === null) {
    throw new CommandError(EXIT.usage, "--stripe-subscription needs --stripe-customer.");
  }
  const { id, name, apiKeyProd, apiKeyTest } = await createOrganization(
    { db: await connections.database(), clock },
    {
      name: options.name,
      fractionalCounting: options.fractional ?? false,
      billingDay: options.billingDay,
      stripeCustomerId: stripeCustomer,
      stripeSubscriptionId: stripeSubscription,
    },
  );
  const created = { id, name, api_key_prod: apiKeyProd, api_key_test: apiKeyTest };
  if (options.json) {
    printJson(io, created);
  } else {
    printRecord(io, created);
  }
  say(io, "The keys are shown only now: keep them. `impact key issue` issues further ones.");
  await warnOfBilling(context, stripeCustomer, stripeSubscription);
};

const list = async (
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

const show = async (
  context: Context,
  id: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const { io, connections, clock } = context;
  const db = await connections.database();
  const account = await getOrganization(db, id);
  const dashboardUrl = `${await connections.publicBaseUrl()}/dashboard/${await getDashboardSlug({ db, clock }, id)}`;
  const [books, donations, keys] = await Promise.all([
    readAllTotals(db, clock, id),
    readDonationBooks(db, clock, id),
    listApiKeys(db, id),
  ]);
  if (json) {
    printJson(io, {
      ...presentOrganization(account),
      dashboard_url: dashboardUrl,
      totals: books.map(({ owner: { mode, kind }, totals: { all, month } }) => ({
        mode,
        kind,
        all,
        month,
      })),
      donations: presentDonationBooks(donations),
      keys: keys.map(presentKey),
    });
    return;
  }
  printDetails(context, account, books, keys);
  io.stdout.write("\n");
  printTable(io, DONATION_HEADINGS, donationRows(donations));
  io.stdout.write("\n");
  printRecord(io, { dashboard: dashboardUrl });
};

const nullIfNone = (given: string): string | null => (given === NONE ? null : given);

type UpdateOptions = {
  readonly name?: string;
  readonly fractional?: boolean;
  readonly billingDay?: number;
  readonly stripeCustomer?: string;
  readonly stripeSubscription?: string;
  readonly charityProvider?: CharityProviderName;
  readonly json?: true;
};

const update = async (context: Context, id: string, options: UpdateOptions): Promise<void> => {
  const {
    name,
    fractional,
    billingDay,
    stripeCustomer,
    stripeSubscription,
    charityProvider,
    json,
  } = options;
  const changes: AccountChanges = {
    ...(name === undefined ? {} : { name }),
    ...(fractional === undefined ? {} : { fractionalCounting: fractional }),
    ...(billingDay === undefined ? {} : { billingDay }),
    ...(stripeCustomer === undefined ? {} : { stripeCustomerId: nullIfNone(stripeCustomer) }),
    ...(stripeSubscription === undefined
      ? {}
      : { stripeSubscriptionId: nullIfNone(stripeSubscription) }),
    ...(charityProvider === undefined ? {} : { charityProvider }),
  };
  if (Object.keys(changes).length === 0) {
    throw new CommandError(EXIT.usage, "Nothing to change: name at least one option.");
  }
  const account = await updateOrganization(
    { db: await context.connections.database() },
    id,
    changes,
  );
  if (json) {
    printJson(context.io, presentOrganization(account));
  } else {
    printOrganization(context, account);
  }
  if (stripeCustomer !== undefined || stripeSubscription !== undefined) {
    await warnOfBilling(context, account.stripeCustomerId, account.stripeSubscriptionId);
  }
};

export const addOrgCommands = (program: Command, context: Context): void => {
  const org = program
    .command("org")
    .description("organizations, the accounts of the standalone API");
  org
    .command("create")
    .description("create an organization and print its two keys, once")
    .requiredOption("--name <name>", "its name", parseName)
    .option("--fractional", "let registrations carry a fractional count")
    .option(
      "--billing-day <day>",
      "day on which the built-in ledger's month starts",
      parseBillingDay,
      1,
    )
    .option("--stripe-customer <id>", "who is billed for live usage, cus_…", parseStripeCustomer)
    .option(
      "--stripe-subscription <id>",
      "whose period is the billing cycle, sub_…",
      parseStripeSubscription,
    )
    .option("--json", "print JSON")
    .action((options: CreateOptions) => create(context, options));
  org
    .command("list")
    .description("list all organizations")
    .option("--json", "print JSON")
    .action((options: { readonly json?: true }) => list(context, options));
  org
    .command("show")
    .description("show an organization's settings, totals and keys")
    .argument("<id>", "the organization", parseId)
    .option("--json", "print JSON")
    .action((id: string, options: { readonly json?: true }) => show(context, id, options));
  org
    .command("update")
    .description("change an organization")
    .argument("<id>", "the organization", parseId)
    .option("--name <name>", "another name", parseName)
    .option(
      "--fractional <on|off>",
      "whether registrations may carry a fractional count",
      parseSwitch,
    )
    .option(
      "--billing-day <day>",
      "day on which the built-in ledger's month starts",
      parseBillingDay,
    )
    .option(
      "--stripe-customer <id|none>",
      "who is billed for live usage from now on",
      orNone(parseStripeCustomer),
    )
    .option(
      "--stripe-subscription <id|none>",
      "whose period is the billing cycle",
      orNone(parseStripeSubscription),
    )
    .option(
      "--charity-provider <name>",
      `who answers its charity searches: ${CHARITY_PROVIDERS.join(", ")}`,
      parseCharityProvider,
    )
    .option("--json", "print JSON")
    .action((id: string, options: UpdateOptions) => update(context, id, options));
};
