import type { z } from "zod";
import { sumUsageByDay } from "./statements.sql.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import type { statementJson } from "./statementJson.rules.ts";
import { timeOf } from "./usage.rules.ts";
import type { Period } from "./usage.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { getOrganization } from "../accounts/getAccount.ts";
import { listInvoicedUsage } from "./invoices/invoicedUsage.sql.ts";
import { describeInvoiceProblem } from "./invoices/invoiceReports.rules.ts";
import { listMeterEvents } from "./meterEventReports.sql.ts";
import { findKnownSubscription } from "./processorEvents/stripeSubscriptions.sql.ts";
import { resolveBillingCycle } from "./resolveBillingCycle.ts";
import type { BillingContext } from "./context.ts";

/** More are seen with `impact usage list`. */
const MAXIMUM_DIFFERENCES = 100;

/**
 * Reads what an organization registered in a period or its current billing cycle, by day and kind, and how far it was billed.
 * @throws DomainError record_not_found if there is no such organization; request_invalid if it has no current billing cycle
 */
export const readStatement = async (
  context: BillingContext,
  owner: AccountMode,
  period: Period | "current",
) => {
  const { db } = context;
  const { accountId, mode } = owner;
  const account = await getOrganization(db, accountId);
  const isLive = mode === "live";
  const allInvoiced = isLive ? await listInvoicedUsage(db, accountId) : [];
  const readKind = async (kind: Kind) => {
    const stream = { ...owner, kind };
    const kindPeriod =
      period === "current" ? (await resolveBillingCycle(context, stream)).cycle : period;
    if (kindPeriod === null) {
      throw invalidRequest(
        "The organization's subscription has ended, so it has no current billing cycle. Pass a month as the period.",
      );
    }
    const span = { start: secondOf(kindPeriod.start), end: secondOf(kindPeriod.end) };
    const found = { state: "difference", accountId, span, limit: MAXIMUM_DIFFERENCES } as const;
    const differences = isLive ? await listMeterEvents(db, found) : [];
    return {
      kind,
      period: kindPeriod,
      ...(await sumUsageByDay(db, stream, span)),
      /** Where Stripe's sums differ from what was delivered, as they were last compared. */
      openDifferences: differences.filter((each) => each.kind === kind),
      /** What invoices have of the usage, and why they lack some, as it was last compared. */
      invoiced: allInvoiced.filter(
        (usage) => usage.kind === kind && usage.start < span.end && usage.end > span.start,
      ),
    };
  };
  return {
    account,
    mode,
    /** As it was last read; null in test mode and without one. */
    subscription: isLive ? await findKnownSubscription(db, accountId) : null,
    statements: [await readKind("tree"), await readKind("bottle")],
  };
};

export type Statement = Awaited<ReturnType<typeof readStatement>>;
export type KindStatement = Statement["statements"][number];

const presentPeriod = ({ start, end }: Period) => ({
  start: start.toISOString(),
  end: end.toISOString(),
});

/** Returns a statement as clients see it. */
export const presentStatement = ({
  mode,
  subscription,
  statements,
}: Statement): z.output<typeof statementJson> => ({
  mode,
  subscription: subscription && {
    status: subscription.status,
    paused: subscription.pausedBy,
    trial: subscription.trial && presentPeriod(subscription.trial),
  },
  statements: statements.map(({ kind, period, total, days, invoiced }) => ({
    kind,
    period: presentPeriod(period),
    ...total,
    days: [...days],
    unit_price: subscription?.unitPrices[kind] ?? null,
    invoices: invoiced.map((usage) => ({
      number: usage.invoiceNumber,
      period: presentPeriod({ start: timeOf(usage.start), end: timeOf(usage.end) }),
      invoiced: usage.quantity,
      reported: usage.delivered,
      problem: describeInvoiceProblem(usage),
    })),
  })),
});
