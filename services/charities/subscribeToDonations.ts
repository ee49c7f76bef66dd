import { setTimeout as sleep } from "node:timers/promises";
import type { DatabasePool } from "slonik";
import type { Account } from "../../db/accounts/accounts.ts";
import {
  findDonationSubscription,
  leaseDonationSubscription,
  releaseDonationSubscription,
} from "../../db/charities/donationSubscriptions.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError, OutageError } from "../../domain/errors.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** All calls to the processor together. */
const PROVISION_WITHIN_MS = 8000;
/** Longer than that: only a process that died leaves its lease to run out. */
const LEASE_MS = 15_000;
const LOOK_AGAIN_MS = 50;

const outage = (cause: unknown): OutageError =>
  new OutageError("the payment processor could not provision the donation subscription", { cause });

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

const provision = async (
  { db, clock }: Dependencies,
  owner: AccountMode,
  account: Account,
  processor: BillingProcessor,
  attempt: number,
): Promise<void> => {
  let verifiedAt: Date | null = null;
  try {
    await processor.provisionDonations(
      {
        accountId: account.id,
        customerId: account.stripeCustomerId,
        subscriptionId: account.stripeSubscriptionId,
      },
      attempt,
      AbortSignal.timeout(PROVISION_WITHIN_MS),
    );
    verifiedAt = clock.now();
  } catch (error) {
    throw outage(error);
  } finally {
    await releaseDonationSubscription(db, owner, attempt, verifiedAt);
  }
};

/**
 * Provisions what the processor needs for an account's donations. Repeating it changes nothing; of concurrent calls one
 * provisions and the others wait for it.
 * @throws DomainError request_invalid when the account has no subscription at its processor
 * @throws OutageError when the processor fails, which leaves nothing half done
 */
export const subscribeToDonations = async (
  deps: Dependencies,
  owner: AccountMode,
): Promise<void> => {
  const { db, clock, billing } = deps;
  const account = await getAccount(db, owner.accountId);
  const processor = billing.findProcessor(billing.processorFor(account, owner.mode), owner.mode);
  if (processor === null) {
    throw outage(
      new Error(`Account ${account.id} has a Stripe customer, and Stripe is not set up.`),
    );
  }
  if (processor.name === "stripe" && account.stripeSubscriptionId === null) {
    throw new DomainError(
      "request_invalid",
      "the organization has no subscription that donations could be added to",
    );
  }
  const carrier = {
    processor: processor.name,
    subscriptionId: processor.name === "stripe" ? account.stripeSubscriptionId : null,
  };
  const asked = clock.now();
  const patience = AbortSignal.timeout(LEASE_MS);
  while (!patience.aborted) {
    const now = clock.now();
    const until = new Date(now.getTime() + LEASE_MS);
    const attempt = await leaseDonationSubscription(db, owner, carrier, { now, until });
    if (attempt !== null) {
      await provision(deps, owner, account, processor, attempt);
      return;
    }
    await sleep(LOOK_AGAIN_MS);
    const known = await findDonationSubscription(db, owner);
    if (
      known?.verifiedAt &&
      known.verifiedAt >= asked &&
      known.subscriptionId === carrier.subscriptionId
    ) {
      return;
    }
  }
  throw outage(null);
};
