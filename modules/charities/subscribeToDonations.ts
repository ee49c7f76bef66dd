import type { Account } from "../accounts/accounts.sql.ts";
import { recordProvisioning } from "./donationSubscriptions.sql.ts";
import type { Carrier, Donor } from "./donationSubscriptions.sql.ts";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { OutageError, invalidRequest, DomainError } from "../../runtime/errors.rules.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { BillingContext } from "../billing/context.ts";

/** The limit of all calls to the processor together. */
const PROVISION_WITHIN_MS = 8000;

const outage = (cause: unknown): OutageError =>
  new OutageError("the payment processor could not provision the donation subscription", { cause });

/**
 * Returns who bills an account.
 * @throws DomainError request_invalid if the account has no subscription at Stripe
 * @throws OutageError if Stripe bills it and is not configured
 */
const carrierOf = ({ billing }: BillingContext, account: Account, mode: Mode): Carrier => {
  const { processor } = billing.targetFor(account, mode);
  if (processor === "ledger") {
    return { processor, subscriptionId: null };
  }
  if (billing.stripe === null) {
    throw outage(
      new Error(`Account ${account.id} has a Stripe customer, and Stripe is not configured.`),
    );
  }
  if (account.stripeSubscriptionId === null) {
    throw invalidRequest("the organization has no Stripe subscription to add donations to");
  }
  return { processor, subscriptionId: account.stripeSubscriptionId };
};

/**
 * Adds the donation items to an account's subscription at its processor. Repeating it changes nothing.
 * @throws DomainError request_invalid if the account has no subscription at its processor
 * @throws OutageError if the processor fails; no item is added then, or all are and the next call finds them
 */
export const subscribeToDonations = async (
  context: BillingContext,
  owner: AccountMode,
): Promise<void> => {
  const { db, clock, billing } = context;
  const account = await getAccount(db, owner.accountId);
  const carrier = carrierOf(context, account, owner.mode);
  if (carrier.subscriptionId !== null) {
    const signal = AbortSignal.timeout(PROVISION_WITHIN_MS);
    await billing.stripe
      ?.provisionDonations(carrier.subscriptionId, signal)
      .catch((error: unknown) => {
        throw outage(error);
      });
  }
  await recordProvisioning(db, owner, carrier, clock.now());
};

/**
 * Returns how a donor's subscription to donations is in a mode; null if there is none. One has ended that the processor has
 * reported as such, or whose processor or subscription is not the one that the account has now.
 */
export const subscriptionStateOf = (
  { billing }: Pick<BillingContext, "billing">,
  donor: Donor,
  mode: Mode,
): "active" | "ended" | null => {
  const { processor, subscriptionId, activeSince, hasEnded } = donor;
  // An earlier release recorded the processor before it had the items.
  if (activeSince === null) {
    return null;
  }
  const hasCarrier =
    processor === billing.targetFor(donor, mode).processor &&
    (processor === "ledger" || subscriptionId === donor.stripeSubscriptionId);
  return hasCarrier && !hasEnded ? "active" : "ended";
};

/** Returns why a donor may not make live donations, or null. */
export const findSubscriptionRefusal = (
  context: Pick<BillingContext, "billing">,
  donor: Donor,
): DomainError | null =>
  subscriptionStateOf(context, donor, "live") === "active"
    ? null
    : new DomainError("donations_not_subscribed", "donation subscription not active");
