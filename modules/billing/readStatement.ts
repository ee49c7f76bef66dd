import type { z } from "zod";
import { sumUsageByDay } from "./statements.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode, Kind, Owner } from "../records/owner.rules.ts";
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

/** @throws DomainError request_invalid without a period, if there is no current billing cycle */
const periodOf = async (
  context: BillingContext,
  stream: Owner,
  period: Period | null,
): Promise<Period> => {
  const span = period ?? (await resolveBillingCycle(context, stream)).cycle;
  if (span === null) {
    throw invalidRequest(
      "The organization's subscription has ended, so it has no current billing cycle. Pass a month as the period.",
    );
  }
  return span;
};

/**
 * Reads what an organization registered in a period, by day and kind, and how far it was billed.
 * @param period null for the current billing cycle
 * @throws DomainError record_not_found if there is no such organization
 */
export const readStatement = async (
  context: BillingContext,
  owner: AccountMode,
  period: Period | null,
) => {
  const { db } = context;
  const account = await getOrganization(db, owner.accountId);
  const isLive = owner.mode === "live";
  const allInvoiced = isLive ? await listInvoicedUsage(db, owner.accountId) : [];
  const readKind = async (kind: Kind) => {
    const stream = { ...owner, kind };
    const kindPeriod = await periodOf(context, stream, period);
    const [start, end] = [secondOf(kindPeriod.start), secondOf(kindPeriod.end)];
    const differences = isLive
      ? await listMeterEvents(db, {
          state: "difference",
          accountId: owner.accountId,
          span: { start, end },
          limit: MAXIMUM_DIFFERENCES,
        })
      : [];
    return {
      kind,
      period: kindPeriod,
      ...(await sumUsageByDay(db, stream, { start, end })),
      /** Where Stripe's sums differ from what was delivered, as they were last compared. */
      openDifferences: differences.filter((each) => each.kind === kind),
      /** What invoices have of the usage, and why they lack some, as it was last compared. */
      invoiced: allInvoiced.filter(
        (usage) => usage.kind === kind && usage.start < end && usage.end > start,
      ),
    };
  };
  const statements: Awaited<ReturnType<typeof readKind>>[] = [];
  for (const kind of KINDS) {
    statements.push(await readKind(kind));
  }
  return {
    account,
    mode: owner.mode,
    /** As it was last read; null in test mode and without one. */
    subscription: isLive ? await findKnownSubscription(db, owner.accountId) : null,
    statements,
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
