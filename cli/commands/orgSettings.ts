import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import { listAccountLimits } from "../../modules/accounts/accountLimits.sql.ts";
import type { Account, AccountChanges } from "../../modules/accounts/accounts.sql.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CHARITY_PROVIDERS, SUBSCRIPTION_POLICIES } from "../../modules/accounts/accounts.rules.ts";
import { readCell } from "../../modules/records/cells.sql.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { awaitCachedKeys } from "../apiKeys.ts";
import { ORGANIZATION, getNamedAccount } from "../accountOptions.ts";
import {
  nonBlank,
  nullIfNone,
  onlyGiven,
  orNone,
  parseCharityProvider,
  parseStripeCustomer,
  parseSwitch,
  parserOf,
  wholeNumber,
} from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { say } from "../io.ts";
import { addLimitOptions, newLimitOf, presentLimits } from "../limitOptions.ts";
import { openChange, withAudit } from "../operator.ts";
import { printDetails } from "../output/print.ts";
import {
  addProfileOptions,
  presentProfile,
  readProfileChanges,
  reportColorAdjustments,
} from "./orgProfile.ts";

/*
 * What only create and update need is loaded by them, so that `impact org list` takes no CPU for it.
 */

/** An organization as programs read it. */
export const presentOrganization = (account: Account) => ({
  id: account.id,
  name: account.name,
  fractional_counting: account.fractionalCounting,
  billing_day: account.billingDay,
  stripe_customer_id: account.stripeCustomerId,
  stripe_subscription_id: account.stripeSubscriptionId,
  charity_provider: account.charityProvider,
  subscription_policy: account.subscriptionPolicy,
  created_at: account.createdAt,
});

const STRIPE_TIMEOUT_MS = 20_000;

/** Stores what Stripe has of the subscription. Until the first worker has recorded who bills, nothing depends on it. */
const refreshAtStripe = async (
  { connections, clock }: CliContext,
  accountId: string,
): Promise<void> => {
  const db = await connections.database();
  const { processor } = await readDeployment(db);
  if (processor?.name === "stripe") {
    const { refreshSubscription } =
      await import("../../modules/billing/processorEvents/refreshSubscriptions.ts");
    await refreshSubscription(
      { db, clock, billing: await connections.billing() },
      accountId,
      AbortSignal.timeout(STRIPE_TIMEOUT_MS),
    );
  }
};

/**
 * Refuses a customer that Stripe does not know: all usage would be rejected, and whoever repairs it would have to decide about
 * sums that cannot be read. If Stripe cannot be asked, the warning of `checkAtStripe` says so.
 */
const requireKnownCustomer = async (
  { connections }: CliContext,
  customerId: string | null,
): Promise<void> => {
  const stripe = await connections.stripe();
  if (stripe === null || customerId === null) {
    return;
  }
  const problem = await stripe.inspectCustomer(customerId).catch(() => null);
  if (problem !== null) {
    throw new CommandError(EXIT.failed, `${problem} Nothing was changed.`);
  }
};

/**
 * Reads an organization's customer and subscription at Stripe, if Stripe is switched on. The state of the subscription is
 * stored, so that policies apply immediately. Settings with which Stripe never bills the organization are warned about:
 * Stripe rejects usage without a customer, and accepts but never invoices usage that no item of the subscription prices.
 * An outage of Stripe is a warning, too.
 */
const checkAtStripe = async (
  context: CliContext,
  organization: Pick<Account, "id" | "stripeCustomerId" | "stripeSubscriptionId">,
): Promise<void> => {
  const { io, connections } = context;
  const { id, stripeCustomerId: customerId, stripeSubscriptionId: subscriptionId } = organization;
  const stripe = await connections.stripe();
  if (stripe === null) {
    return;
  }
  if (customerId === null) {
    say(
      io,
      "Warning: The organization has no Stripe customer. Its live usage is rejected until it has one.",
    );
  }
  try {
    const customerProblem = customerId === null ? null : await stripe.inspectCustomer(customerId);
    if (customerProblem !== null) {
      say(io, `Warning: ${customerProblem} The organization's live usage is rejected.`);
    }
    if (subscriptionId === null) {
      return;
    }
    const problems = await stripe.inspectSubscription(
      await readCell(await connections.database()),
      customerId,
      subscriptionId,
      KINDS,
    );
    for (const problem of problems) {
      say(io, `Warning: ${problem}`);
    }
    await refreshAtStripe(context, id);
  } catch (error) {
    say(
      io,
      `Warning: Stripe could not check the customer and the subscription: ${describeError(error)} The settings are stored. Webhooks and the nightly sweep read the subscription later.`,
    );
  }
};

const parseName = parserOf(
  nonBlank(SHORT_TEXT_LENGTH),
  `a name of 1 to ${SHORT_TEXT_LENGTH} characters`,
);

const BILLING_DAY = "day of the month on which the built-in ledger's billing cycle starts";
const STRIPE_CUSTOMER = "Stripe customer that is billed for live usage";
const STRIPE_SUBSCRIPTION = "Stripe subscription whose period is the billing cycle";

const SUBSCRIPTION_POLICY =
  "what to do if the subscription is not active: alert, suspend (reject registrations) or keep";

const parseBillingDay = parserOf(wholeNumber(1, 31), "a day of the month, 1 to 31");

const parseStripeSubscription = parserOf(z.string().regex(/^sub_\w+$/u), "a Stripe id, sub_…");

const parseSubscriptionPolicy = parserOf(
  z.enum(SUBSCRIPTION_POLICIES),
  `one of ${SUBSCRIPTION_POLICIES.join(", ")}`,
);

export const addCreateCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("create")
      .description("Create an organization and print its two API keys, once")
      .requiredOption("--name <name>", "name of the organization", parseName)
      .option("--fractional", "allow a fractional count in registrations")
      .option("--billing-day <day>", BILLING_DAY, parseBillingDay, 1)
      .option("--stripe-customer <id>", `${STRIPE_CUSTOMER}, cus_…`, parseStripeCustomer)
      .option(
        "--stripe-subscription <id>",
        `${STRIPE_SUBSCRIPTION}, sub_…`,
        parseStripeSubscription,
      )
      .option(
        "--subscription-policy <policy>",
        SUBSCRIPTION_POLICY,
        parseSubscriptionPolicy,
        "alert",
      ),
  ).action(async (options) => {
    const { io } = context;
    const { stripeCustomer = null, stripeSubscription = null } = options;
    if (stripeSubscription !== null && stripeCustomer === null) {
      throw new CommandError(EXIT.usage, "--stripe-subscription requires --stripe-customer.");
    }
    await requireKnownCustomer(context, stripeCustomer);
    const { createOrganization } = await import("../../modules/accounts/createOrganization.ts");
    const { id, name, apiKeyProd, apiKeyTest } = await createOrganization(
      await openChange(context, options),
      {
        name: options.name,
        fractionalCounting: options.fractional ?? false,
        billingDay: options.billingDay,
        stripeCustomerId: stripeCustomer,
        stripeSubscriptionId: stripeSubscription,
        subscriptionPolicy: options.subscriptionPolicy,
      },
    );
    const created = { id, name, api_key_prod: apiKeyProd, api_key_test: apiKeyTest };
    printDetails(io, created);
    say(io, "Save these keys now; they cannot be shown again.");
    await checkAtStripe(context, {
      id,
      stripeCustomerId: stripeCustomer,
      stripeSubscriptionId: stripeSubscription,
    });
  });
};

export const addUpdateCommand = (parent: Command, context: CliContext): void => {
  const update = parent
    .command("update")
    .description("Change an organization's settings, public profile and limits")
    .argument(...ORGANIZATION)
    .option("--name <name>", "new name", parseName)
    .option("--fractional <on|off>", "fractional counts in registrations", parseSwitch)
    .option("--billing-day <day>", BILLING_DAY, parseBillingDay)
    .option("--stripe-customer <id|none>", STRIPE_CUSTOMER, orNone(parseStripeCustomer))
    .option("--stripe-subscription <id|none>", STRIPE_SUBSCRIPTION, orNone(parseStripeSubscription))
    .option(
      "--charity-provider <name>",
      `charity provider: ${CHARITY_PROVIDERS.join(", ")}`,
      parseCharityProvider,
    )
    .option("--subscription-policy <policy>", SUBSCRIPTION_POLICY, parseSubscriptionPolicy);
  withAudit(addLimitOptions(addProfileOptions(update))).action(async (named, options) => {
    const { stripeCustomer, stripeSubscription, charityProvider, subscriptionPolicy } = options;
    const changes: AccountChanges = onlyGiven({
      name: options.name,
      fractionalCounting: options.fractional,
      billingDay: options.billingDay,
      stripeCustomerId: nullIfNone(stripeCustomer),
      stripeSubscriptionId: nullIfNone(stripeSubscription),
      charityProvider,
      subscriptionPolicy,
    });
    const limit = newLimitOf(options);
    const profile = await readProfileChanges(options);
    if (Object.keys(changes).length === 0 && limit === null && profile === null) {
      throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
    }
    await requireKnownCustomer(context, nullIfNone(stripeCustomer) ?? null);
    const change = await openChange(context, options);
    const { id } = await getNamedAccount(change.db, named);
    const { updateOrganization } = await import("../../modules/accounts/updateOrganization.ts");
    const account = await updateOrganization(change, id, changes, { limit, profile });
    printDetails(context.io, {
      ...presentOrganization(account),
      profile: presentProfile(await findProfile(change.db, id)),
      limits: presentLimits(await listAccountLimits(change.db, id)),
    });
    reportColorAdjustments(context, profile);
    if (limit !== null || subscriptionPolicy !== undefined) {
      await awaitCachedKeys(context.io);
    }
    if (stripeCustomer ?? stripeSubscription ?? subscriptionPolicy) {
      await checkAtStripe(context, account);
    }
    if (charityProvider !== undefined) {
      const { warnAboutCharityProvider } = await import("../charitySettings.ts");
      warnAboutCharityProvider(context, charityProvider);
    }
  });
};
