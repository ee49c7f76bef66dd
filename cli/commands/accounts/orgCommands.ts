import type { Command } from "commander";
import { SHORT_TEXT_LENGTH } from "../../../domain/fields.ts";
import { CHARITY_PROVIDERS } from "../../../domain/accounts/accounts.ts";
import {
  nonBlank,
  orNone,
  parseBillingDay,
  parseCharityProvider,
  parseId,
  parserOf,
  parseStripeCustomer,
  parseStripeSubscription,
  parseSubscriptionPolicy,
  parseSwitch,
} from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { withAudit } from "../../operator.ts";
import type { JsonOption } from "../../output/print.ts";
import type { CreateOptions } from "./createOrg.ts";
import { createOrg } from "./createOrg.ts";
import { addLimitOptions } from "../../limitOptions.ts";
import { listOrgs } from "./listOrgs.ts";
import { addProfileOptions } from "./profileOptions.ts";
import { showOrg } from "./showOrg.ts";
import type { UpdateOptions } from "./updateOrg.ts";
import { updateOrg } from "./updateOrg.ts";

const parseName = parserOf(
  nonBlank(SHORT_TEXT_LENGTH),
  `a name of 1 to ${SHORT_TEXT_LENGTH} characters`,
);

const BILLING_DAY = "day of the month on which the built-in ledger's billing cycle starts";
const STRIPE_CUSTOMER = "Stripe customer that is billed for live usage";
const STRIPE_SUBSCRIPTION = "Stripe subscription whose period is the billing cycle";

const SUBSCRIPTION_POLICY =
  "what to do if the subscription is not active: alert, suspend (reject registrations) or keep";

export const addOrgCommands = (org: Command, context: CliContext): void => {
  withAudit(
    org
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
  ).action((options: CreateOptions) => createOrg(context, options));
  org
    .command("list")
    .description("List all organizations")
    .action((options: JsonOption) => listOrgs(context, options));
  org
    .command("show")
    .description("Show an organization's settings, public profile, limits, totals and keys")
    .argument("<id>", "id of the organization", parseId)
    .action((id: string, options: JsonOption) => showOrg(context, id, options));
  const update = org
    .command("update")
    .description("Change an organization's settings, public profile and limits")
    .argument("<id>", "id of the organization", parseId)
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
  withAudit(addLimitOptions(addProfileOptions(update))).action(
    (id: string, options: UpdateOptions) => updateOrg(context, id, options),
  );
};
