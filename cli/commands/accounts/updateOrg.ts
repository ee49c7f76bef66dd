import type { AccountChanges } from "../../../db/accounts/accounts.ts";
import type { SubscriptionPolicy } from "../../../domain/accounts/accounts.ts";
import type { CharityProviderName } from "../../../domain/charities/charities.ts";
import { updateOrganization } from "../../../services/accounts/updateOrganization.ts";
import { nullIfNone } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson } from "../../output/print.ts";
import { checkAtStripe } from "./checkAtStripe.ts";
import type { LimitOptions } from "./limitOptions.ts";
import { newLimitsOf } from "./limitOptions.ts";
import { presentOrganization, printOrganization } from "./presentOrganization.ts";
import { readProfileChanges, reportColorAdjustments } from "./profileOptions.ts";
import type { ProfileOptions } from "./profileOptions.ts";
import { warnAboutCharityProvider } from "./warnAboutCharityProvider.ts";

export type UpdateOptions = LimitOptions &
  ProfileOptions &
  ChangeOptions & {
    readonly name?: string;
    readonly fractional?: boolean;
    readonly billingDay?: number;
    readonly stripeCustomer?: string;
    readonly stripeSubscription?: string;
    readonly charityProvider?: CharityProviderName;
    readonly subscriptionPolicy?: SubscriptionPolicy;
    readonly timeZone?: string;
  };

export const updateOrg = async (
  context: Context,
  id: string,
  options: UpdateOptions,
): Promise<void> => {
  const {
    name,
    fractional,
    billingDay,
    stripeCustomer,
    stripeSubscription,
    charityProvider,
    subscriptionPolicy,
    timeZone,
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
    ...(subscriptionPolicy === undefined ? {} : { subscriptionPolicy }),
    ...(timeZone === undefined ? {} : { timeZone: nullIfNone(timeZone) }),
  };
  const limits = newLimitsOf(options);
  const profile = await readProfileChanges(options);
  if (Object.keys(changes).length === 0 && limits === null && profile === null) {
    throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
  }
  const account = await updateOrganization(await openChange(context, options), id, changes, {
    limits,
    profile,
  });
  if (json) {
    printJson(context.io, presentOrganization(account));
  } else {
    printOrganization(context, account);
  }
  reportColorAdjustments(context, profile);
  const changesBilling = [stripeCustomer, stripeSubscription, subscriptionPolicy].some(
    (given) => given !== undefined,
  );
  if (changesBilling) {
    await checkAtStripe(context, account);
  }
  if (charityProvider !== undefined) {
    warnAboutCharityProvider(context, charityProvider);
  }
};
