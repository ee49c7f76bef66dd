import type { SubscriptionPolicy } from "../../../domain/accounts/accounts.ts";
import { createOrganization } from "../../../services/accounts/createOrganization.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { checkAtStripe } from "./checkAtStripe.ts";

export type CreateOptions = ChangeOptions & {
  readonly name: string;
  readonly fractional?: true;
  readonly billingDay: number;
  readonly stripeCustomer?: string;
  readonly stripeSubscription?: string;
  readonly subscriptionPolicy: SubscriptionPolicy;
};

export const createOrg = async (context: CliContext, options: CreateOptions): Promise<void> => {
  const { io } = context;
  const { stripeCustomer = null, stripeSubscription = null } = options;
  if (stripeSubscription !== null && stripeCustomer === null) {
    throw new CommandError(EXIT.usage, "--stripe-subscription requires --stripe-customer.");
  }
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
  if (options.json) {
    printJson(io, created);
  } else {
    printRecord(io, created);
  }
  say(io, "Save these keys now; they cannot be shown again.");
  await checkAtStripe(context, {
    id,
    stripeCustomerId: stripeCustomer,
    stripeSubscriptionId: stripeSubscription,
  });
};
