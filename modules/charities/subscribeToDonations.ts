import { setTimeout as sleep } from "node:timers/promises";
import type { Account } from "../accounts/accounts.sql.ts";
import {
  findDonationSubscription,
  leaseDonationSubscription,
  releaseDonationSubscription,
} from "./donationSubscriptions.sql.ts";
import type {
  ProvisioningAttempt,
  DonationSubscription,
  Donor,
} from "./donationSubscriptions.sql.ts";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { OutageError, invalidRequest, DomainError } from "../../runtime/errors.rules.ts";
import { ProvisioningRejectedError } from "../billing/processor.ts";
import type { BillingProcessor } from "../billing/processor.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { BillingContext } from "../billing/context.ts";

/** The limit of all calls to the processor together. */
const PROVISION_WITHIN_MS = 8000;
/** Longer than that, so a lease expires only if its process died. */
const LEASE_MS = 15_000;
const LEASE_POLL_MS = 50;

const outage = (cause: unknown): OutageError =>
  new OutageError("the payment processor could not provision the donation subscription", { cause });

const provision = async (
  { db, clock }: BillingContext,
  owner: AccountMode,
  account: Account,
  /** Null: the built-in ledger bills the account, and has no items. */
  stripe: BillingProcessor | null,
  attempt: ProvisioningAttempt,
): Promise<void> => {
  let verifiedAt: Date | null = null;
  let isOutcomeKnown = false;
  try {
    await stripe?.provisionDonations(
      { accountId: account.id, subscriptionId: account.stripeSubscriptionId },
      attempt.keyGeneration,
      AbortSignal.timeout(PROVISION_WITHIN_MS),
    );
    verifiedAt = clock.now();
    isOutcomeKnown = true;
  } catch (error) {
    isOutcomeKnown = error instanceof ProvisioningRejectedError;
    throw outage(error);
  } finally {
    await releaseDonationSubscription(db, owner, attempt, { verifiedAt, isOutcomeKnown });
  }
};

/**
 * Adds the donation items to an account's subscription at its processor. Repeating it changes nothing. Of concurrent
 * calls one adds the items, and the others wait for it.
 * @throws DomainError request_invalid if the account has no subscription at its processor
 * @throws OutageError if the processor fails; no item is added then
 */
export const subscribeToDonations = async (
  context: BillingContext,
  owner: AccountMode,
): Promise<void> => {
  const { db, clock, billing } = context;
  const account = await getAccount(db, owner.accountId);
  const processor = billing.processorFor(account, owner.mode);
  const isAtStripe = processor === "stripe";
  if (isAtStripe && billing.stripe === null) {
    throw outage(
      new Error(`Account ${account.id} has a Stripe customer, and Stripe is not configured.`),
    );
  }
  if (isAtStripe && account.stripeSubscriptionId === null) {
    throw invalidRequest("the organization has no Stripe subscription to add donations to");
  }
  const carrier = {
    processor,
    subscriptionId: isAtStripe ? account.stripeSubscriptionId : null,
  };
  const requestedAt = clock.now();
  const timeout = AbortSignal.timeout(LEASE_MS);
  while (!timeout.aborted) {
    const now = clock.now();
    const until = new Date(now.getTime() + LEASE_MS);
    const attempt = await leaseDonationSubscription(db, owner, carrier, { now, until });
    if (attempt !== null) {
      await provision(context, owner, account, isAtStripe ? billing.stripe : null, attempt);
      return;
    }
    await sleep(LEASE_POLL_MS);
    const known = await findDonationSubscription(db, owner);
    if (
      known?.verifiedAt &&
      known.verifiedAt >= requestedAt &&
      known.subscriptionId === carrier.subscriptionId
    ) {
      return;
    }
  }
  throw outage(new Error(`Another call held the lease for ${LEASE_MS} ms.`));
};

/** Returns whether an account still has the processor and the subscription that carry its donation items. */
const hasCarrier = (
  { billing }: Pick<BillingContext, "billing">,
  account: Account,
  mode: Mode,
  { processor, subscriptionId }: Pick<Donor, "processor" | "subscriptionId">,
): boolean =>
  processor === billing.processorFor(account, mode) &&
  (processor === "ledger" || subscriptionId === account.stripeSubscriptionId);

/** Returns an account's donation subscription, or null. One with another carrier than the account has now has ended. */
export const readDonationSubscription = async (
  context: Pick<BillingContext, "db" | "billing">,
  account: Account,
  mode: Mode,
): Promise<DonationSubscription | null> => {
  const found = await findDonationSubscription(context.db, { accountId: account.id, mode });
  return (
    found && { ...found, hasEnded: found.hasEnded || !hasCarrier(context, account, mode, found) }
  );
};

/** Returns why a donor may not make live donations, or null. */
export const findSubscriptionRefusal = (
  context: Pick<BillingContext, "billing">,
  donor: Donor,
): DomainError | null =>
  donor.activeSince && !donor.hasEnded && hasCarrier(context, donor, "live", donor)
    ? null
    : new DomainError("donations_not_subscribed", "donation subscription not active");
