import type { DatabasePool } from "slonik";
import { findBillingPeriod, saveBillingPeriod } from "../../db/billing/billingPeriods.ts";
import type { Kind, Mode } from "../../domain/accounts/accounts.ts";
import type { Period } from "../../domain/billing/billingCycle.ts";
import { isWithin, monthlyCycle } from "../../domain/billing/billingCycle.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";

/** A subscription can be moved by hand at the processor; this is how long we may not have noticed. */
const MIRRORED_MS = 60 * 60 * 1000;

const ANSWER_WITHIN_MS = 8000;

/**
 * What bills an account, and its billing cycle that holds the current instant: the period of the account's subscription
 * where Stripe bills the account and has one, else the month from the account's billing day.
 * @throws Error when Stripe should know the period and cannot be asked, tells one that does not hold the current instant,
 * or is not set up here: nobody may guess it
 */
export const resolveBillingCycle = async (
  {
    db,
    clock,
    billing,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  accountId: string,
  mode: Mode,
  meter: Kind,
): Promise<{ readonly biller: BillingProcessor["name"]; readonly cycle: Period }> => {
  const account = await getAccount(db, accountId);
  const now = clock.now();
  const biller = billing.billerOf(account, mode);
  if (biller === "ledger" || account.stripeSubscriptionId === null) {
    return { biller, cycle: monthlyCycle(account.billingDay, now) };
  }
  const subscription = { accountId, subscriptionId: account.stripeSubscriptionId, meter };
  const mirrored = await findBillingPeriod(db, subscription);
  if (
    mirrored &&
    isWithin(mirrored, now) &&
    now.getTime() - mirrored.readAt.getTime() < MIRRORED_MS
  ) {
    return { biller, cycle: mirrored };
  }
  const processor = billing.named(biller, mode);
  if (!processor) {
    throw new Error(`Stripe, which is not set up, has the billing period of account ${accountId}.`);
  }
  const period = await processor.currentPeriod(
    { ...subscription, customerId: account.stripeCustomerId },
    meter,
    AbortSignal.timeout(ANSWER_WITHIN_MS),
  );
  // Just after a period's end the processor may still tell that one, also since the clocks differ.
  if (!period || !isWithin(period, clock.now())) {
    throw new Error(`The processor tells no current billing period for account ${accountId}.`);
  }
  await saveBillingPeriod(db, subscription, period, now);
  return { biller, cycle: period };
};
