import type { Account } from "../../db/accounts/accounts.ts";
import type { DonationSubscription } from "../../db/charities/donationSubscriptions.ts";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import { MODES } from "../../domain/accounts/accounts.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { DonationTotals } from "../../domain/charities/donations.ts";
import { formatCents } from "../../domain/money.ts";
import { readDonationSubscription } from "../../services/charities/donations/requireDonationSubscription.ts";
import type { BillingContext } from "../../services/billing/context.ts";
import { formatTime } from "./formatTable.ts";
import type { Columns } from "./print.ts";

/** An organization's donations in one mode, and its donation subscription. */
type DonationSummary = {
  readonly mode: Mode;
  readonly totals: DonationTotals;
  readonly subscription: DonationSubscription | null;
};

export const readDonationSummaries = (
  deps: BillingContext,
  account: Account,
): Promise<readonly DonationSummary[]> =>
  Promise.all(
    MODES.map(async (mode) => {
      const { db, clock } = deps;
      const { all } = await readDonationTotals(db, { accountId: account.id, mode }, clock.now());
      const subscription = await readDonationSubscription(deps, account, mode);
      return { mode, totals: all, subscription };
    }),
  );

/** The summaries in the JSON output. */
export const presentDonationSummaries = (summaries: readonly DonationSummary[]) =>
  summaries.map(({ mode, totals, subscription }) => ({
    mode,
    count: totals.count,
    amount_cents: totals.amountCents,
    subscription: subscription && {
      processor: subscription.processor,
      subscription_id: subscription.subscriptionId,
      active_since: subscription.activeSince,
      has_ended: subscription.hasEnded,
    },
  }));

const describeSubscription = (subscription: DonationSubscription | null): string => {
  if (subscription === null) {
    return "none";
  }
  const { processor, subscriptionId, activeSince, hasEnded } = subscription;
  const where = subscriptionId === null ? processor : `${processor} ${subscriptionId}`;
  if (activeSince === null) {
    return `failed (${where})`;
  }
  return hasEnded ? `ended (${where})` : `active since ${formatTime(activeSince)} (${where})`;
};

export const DONATION_COLUMNS: Columns<DonationSummary> = {
  mode: (summary) => summary.mode,
  donations: (summary) => summary.totals.count,
  amount: (summary) => formatCents(summary.totals.amountCents),
  "donation subscription": (summary) => describeSubscription(summary.subscription),
};
