import { listAccountLimits } from "../../../db/accounts/accountLimits.ts";
import type { AccountChanges } from "../../../db/accounts/accounts.ts";
import { findProfile } from "../../../db/dashboard/profiles.ts";
import type { SubscriptionPolicy, CharityProviderName } from "../../../domain/accounts/accounts.ts";
import { updateOrganization } from "../../../services/accounts/updateOrganization.ts";
import { nullIfNone } from "../../arguments.ts";
import { awaitCachedKeys } from "../../apiKeys.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { checkAtStripe } from "./checkAtStripe.ts";
import type { LimitOptions } from "../../limitOptions.ts";
import { LIMIT_HEADINGS, limitRows, newLimitsOf, presentLimits } from "../../limitOptions.ts";
import { presentOrganization, printOrganization } from "./presentOrganization.ts";
import {
  presentProfile,
  profileRecord,
  readProfileChanges,
  reportColorAdjustments,
} from "./profileOptions.ts";
import type { ProfileOptions } from "./profileOptions.ts";
import { warnAboutCharityProvider } from "../../charitySettings.ts";

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
  };

export const updateOrg = async (
  context: CliContext,
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
  };
  const limits = newLimitsOf(options);
  const profile = await readProfileChanges(options);
  if (Object.keys(changes).length === 0 && limits === null && profile === null) {
    throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
  }
  const change = await openChange(context, options);
  const account = await updateOrganization(change, id, changes, { limits, profile });
  const newProfile = await findProfile(change.db, id);
  const newLimits = await listAccountLimits(change.db, id);
  if (json) {
    printJson(context.io, {
      ...presentOrganization(account),
      profile: presentProfile(newProfile),
      limits: presentLimits(newLimits),
    });
  } else {
    printOrganization(context, account);
    if (profile !== null) {
      context.io.stdout.write("\n");
      printRecord(context.io, profileRecord(newProfile));
    }
    if (limits !== null) {
      context.io.stdout.write("\n");
      printTable(context.io, LIMIT_HEADINGS, limitRows(newLimits));
    }
  }
  reportColorAdjustments(context, profile);
  if (limits !== null || subscriptionPolicy !== undefined) {
    await awaitCachedKeys(context.io);
  }
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
