import type { DatabasePool } from "slonik";
import type { DonationSubscription } from "../../db/charities/donationSubscriptions.ts";
import { findDonationSubscription } from "../../db/charities/donationSubscriptions.ts";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import { MODES } from "../../domain/accounts/accounts.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { DonationTotals } from "../../domain/charities/donations.ts";
import { formatCents } from "../../domain/money.ts";
import { formatTime } from "./formatTable.ts";

/** An organization's donations in one mode, and its donation subscription. */
type DonationSummary = {
  readonly mode: Mode;
  readonly totals: DonationTotals;
  readonly subscription: DonationSubscription | null;
};

export const readDonationSummaries = (
  db: DatabasePool,
  clock: Clock,
  accountId: string,
): Promise<readonly DonationSummary[]> =>
  Promise.all(
    MODES.map(async (mode) => {
      const owner = { accountId, mode };
      const { all } = await readDonationTotals(db, owner, clock.now());
      return { mode, totals: all, subscription: await findDonationSubscription(db, owner) };
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

export const DONATION_HEADINGS = ["mode", "donations", "amount", "donation subscription"];

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

export const donationRows = (summaries: readonly DonationSummary[]) =>
  summaries.map(({ mode, totals, subscription }) => [
    mode,
    totals.count,
    formatCents(totals.amountCents),
    describeSubscription(subscription),
  ]);
