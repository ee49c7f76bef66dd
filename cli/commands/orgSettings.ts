import { z } from "zod";
import { listAccountLimits } from "../../modules/accounts/accountLimits.sql.ts";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { SUBSCRIPTION_POLICIES } from "../../modules/accounts/accounts.rules.ts";
import type { StripeConnection } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { readCell } from "../../modules/records/cells.sql.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { awaitCachedKeys } from "../apiKeys.ts";
import { ORGANIZATION, getNamedAccount } from "../accountOptions.ts";
import {
  nonBlank,
  orNone,
  parseMode,
  parserOf,
  parseStripeCustomer,
  parseSwitch,
  wholeNumber,
} from "../arguments.ts";
import { addChange } from "../command.ts";
import type { Cli, Define } from "../command.ts";
import { snakeCased } from "../output/print.ts";
import { describeError } from "../exitCodes.ts";
import { ACCOUNT_SETTINGS, addSettings, oneOf, presentLimits } from "../settings.ts";
import { PROFILE_SETTINGS, presentProfile, readLogoFile } from "./orgProfile.ts";

/* What only create and update need is loaded by them, so that `impact org list` takes no CPU for it. */

const STRIPE_TIMEOUT_MS = 20_000;

/**
 * Refuses a customer that Stripe does not know: all usage would be rejected, and whoever repairs it would have to decide about
 * sums that cannot be read. If Stripe cannot be asked, the warning of `checkAtStripe` says so.
 */
const requireKnownCustomer = async (
  { connections }: Cli,
  customerId: string | null | undefined,
): Promise<void> => {
  const stripe = customerId && (await connections.stripe());
  const problem = stripe ? await stripe.inspectCustomer(customerId).catch(() => null) : null;
  if (problem !== null) {
    throw invalidRequest(`${problem} Nothing was changed.`);
  }
};

/** Returns what keeps an organization's usage off its invoices, and stores what Stripe has of its subscription. */
const listProblemsAtStripe = async (
  { connections, openBilling }: Cli,
  stripe: StripeConnection,
  { id, stripeCustomerId: customerId, stripeSubscriptionId: subscriptionId }: OrganizationAtStripe,
): Promise<readonly string[]> => {
  if (customerId === null || subscriptionId === null) {
    return customerId === null
      ? ["The organization has no Stripe customer. Its live usage is rejected until it has one."]
      : [];
  }
  const db = await connections.database();
  const cell = await readCell(db);
  const problems = await stripe.inspectSubscription(cell, customerId, subscriptionId);
  // Until the first worker has recorded who bills, nothing depends on the subscription.
  if ((await readDeployment(db)).processor?.name === "stripe") {
    const { refreshSubscription } =
      await import("../../modules/billing/processorEvents/readSubscription.ts");
    await refreshSubscription(await openBilling(), id, AbortSignal.timeout(STRIPE_TIMEOUT_MS));
  }
  return problems;
};

type OrganizationAtStripe = Pick<Account, "id" | "stripeCustomerId" | "stripeSubscriptionId">;

/** Warns about settings with which Stripe never bills an organization, and if Stripe cannot be asked. */
const checkAtStripe = async (cli: Cli, organization: OrganizationAtStripe): Promise<void> => {
  const stripe = await cli.connections.stripe();
  const problems = stripe
    ? await listProblemsAtStripe(cli, stripe, organization).catch((error: unknown) => [
        `Stripe could not check the customer and the subscription: ${describeError(error)} The settings are stored. Webhooks and the nightly comparison read the subscription later.`,
      ])
    : [];
  for (const problem of problems) {
    cli.say(`Warning: ${problem}`);
  }
};

const CREATE_SETTINGS = {
  fractionalCounting: ["--fractional <on|off>", "fractional counts in registrations", parseSwitch],
  billingDay: [
    "--billing-day <day>",
    "day of the month on which the built-in ledger's billing cycle starts",
    parserOf(wholeNumber(1, 31), "a day of the month, 1 to 31"),
  ],
  stripeCustomerId: [
    "--stripe-customer <id|none>",
    "Stripe customer that is billed for live usage, cus_…",
    orNone(parseStripeCustomer),
  ],
  stripeSubscriptionId: [
    "--stripe-subscription <id|none>",
    "Stripe subscription whose period is the billing cycle, sub_…",
    orNone(parserOf(z.string().regex(/^sub_\w+$/u), "a Stripe id, sub_…")),
  ],
  subscriptionPolicy: [
    `--subscription-policy <${SUBSCRIPTION_POLICIES.join("|")}>`,
    "what to do if the subscription is not active: suspend rejects registrations",
    oneOf(SUBSCRIPTION_POLICIES),
  ],
} as const;

const parseName = parserOf(
  nonBlank(SHORT_TEXT_LENGTH),
  `a name of 1 to ${SHORT_TEXT_LENGTH} characters`,
);

const UPDATE_SETTINGS = {
  name: ["--name <name>", "new name", parseName],
  ...ACCOUNT_SETTINGS,
  ...CREATE_SETTINGS,
} as const;

export const addCreateCommand: Define = (org, cli) => {
  const create = addChange(
    org,
    "create",
    "Create an organization and print its two API keys, once",
  ).requiredOption("--name <name>", "name of the organization", parseName);
  const readSettings = addSettings(create, CREATE_SETTINGS);
  create.action(async (options) => {
    const organization = { name: options.name, ...readSettings() };
    if (organization.stripeSubscriptionId && !organization.stripeCustomerId) {
      throw invalidRequest("--stripe-subscription requires --stripe-customer.");
    }
    await requireKnownCustomer(cli, organization.stripeCustomerId);
    const { createOrganization } = await import("../../modules/accounts/manageOrganizations.ts");
    const created = await createOrganization(await cli.openChange(options), organization);
    const { id, name, apiKeyProd, apiKeyTest } = created;
    cli.printDetails({ id, name, api_key_prod: apiKeyProd, api_key_test: apiKeyTest });
    cli.say("Save these keys now; they cannot be shown again.");
    await checkAtStripe(cli, created);
  });
};

export const addUpdateCommand: Define = (org, cli) => {
  const update = addChange(
    org,
    "update",
    "Change an organization's settings, public profile and limits",
  )
    .argument(...ORGANIZATION)
    .option("--mode <live|test>", "mode of --count-per-day", parseMode, "live");
  const readSettings = addSettings(update, UPDATE_SETTINGS);
  const readProfile = addSettings(update, PROFILE_SETTINGS);
  update.action(async (named, options) => {
    const { countPerDay, ...changes } = readSettings();
    const { logo, ...others } = readProfile();
    const profile = {
      ...others,
      ...(logo === undefined ? {} : { logo: logo === null ? null : await readLogoFile(logo) }),
    };
    const hasProfile = Object.keys(profile).length > 0;
    if (!hasProfile && Object.keys(readSettings()).length === 0) {
      throw invalidRequest("Nothing to change. Pass at least one option.");
    }
    const limit = countPerDay === undefined ? undefined : { mode: options.mode, countPerDay };
    await requireKnownCustomer(cli, changes.stripeCustomerId);
    const change = await cli.openChange(options);
    const { id } = await getNamedAccount(change.db, named);
    const { updateOrganization } = await import("../../modules/accounts/manageOrganizations.ts");
    const account = await updateOrganization(change, id, {
      ...changes,
      limit,
      profile: hasProfile ? profile : undefined,
    });
    cli.printDetails({
      ...snakeCased(account),
      profile: presentProfile(await findProfile(change.db, id)),
      limits: presentLimits(await listAccountLimits(change.db, id)),
    });
    const { fractionalCounting, subscriptionPolicy, charityProvider } = changes;
    if ((limit ?? fractionalCounting ?? subscriptionPolicy) !== undefined) {
      await awaitCachedKeys(cli);
    }
    if (changes.stripeCustomerId ?? changes.stripeSubscriptionId ?? subscriptionPolicy) {
      await checkAtStripe(cli, account);
    }
    if (charityProvider !== undefined) {
      const { warnAboutCharityProvider } = await import("../charitySettings.ts");
      warnAboutCharityProvider(cli, charityProvider);
    }
  });
};
