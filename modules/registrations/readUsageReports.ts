import type { CommonQueryMethods } from "slonik";
import { listBillingPeriods } from "../billing/billingPeriods.sql.ts";
import { listInvoicedUsage } from "../billing/invoices/invoicedUsage.sql.ts";
import { findKnownSubscription } from "../billing/processorEvents/stripeSubscriptions.sql.ts";
import { findInvoiceOf } from "../billing/invoices/invoiceReports.rules.ts";
import { listMeterEventsOf } from "../billing/meterEventReports.sql.ts";
import { findListPosition } from "./registrationPages.sql.ts";
import type { RegistrationUsage } from "./registrationUsage.sql.ts";
import { findRegistrationUsage, listRegistrationUsage } from "./registrationUsage.sql.ts";
import type { AccountMode, Kind, Owner } from "../records/owner.rules.ts";
import type { Period } from "../billing/usage.rules.ts";
import { isWithin, monthlyCycle } from "../billing/usage.rules.ts";
import type { UsageReport } from "../billing/billingStatus.rules.ts";
import { usageStateOf } from "../billing/billingStatus.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Billing } from "../billing/createBilling.ts";
import { getAccount } from "../accounts/getAccount.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { BillingContext } from "../billing/context.ts";
import { listRegistrations } from "./listRegistrations.ts";
import type { ListContext, ListPart } from "./listRegistrations.ts";
import type { SearchedPage } from "../../runtime/presentPages.ts";

const readAccountBilling = async (
  db: CommonQueryMethods,
  billing: Billing,
  { accountId, mode }: AccountMode,
) => {
  const account = await getAccount(db, accountId);
  const isInvoiced = mode === "live" && account.stripeCustomerId !== null;
  return {
    billing,
    account,
    periods: await listBillingPeriods(db, accountId),
    invoiced: isInvoiced ? await listInvoicedUsage(db, accountId) : [],
    trial: isInvoiced ? ((await findKnownSubscription(db, accountId))?.trial ?? null) : null,
  };
};

type AccountBilling = Awaited<ReturnType<typeof readAccountBilling>>;

const periodOf = (
  { account, periods }: AccountBilling,
  processor: RegistrationUsage["processor"],
  kind: Kind,
  createdAt: Date,
): Period | null => {
  if (processor === "ledger" || (account.stripeSubscriptionId === null && periods.length === 0)) {
    return monthlyCycle(account.billingDay, createdAt);
  }
  const period = periods.find((span) => span.kind === kind && isWithin(span, createdAt));
  return period ? { start: period.start, end: period.end } : null;
};

const presentUsage = (
  accountBilling: AccountBilling,
  { mode, kind }: Owner,
  usage: RegistrationUsage,
): UsageReport => {
  const { createdAt, states, isLate } = usage;
  const state = usageStateOf(usage, states);
  const { account, billing } = accountBilling;
  const processor = usage.processor ?? billing.targetFor(account, mode).processor;
  const period =
    state === "not_billed" ? null : periodOf(accountBilling, processor, kind, createdAt);
  const { invoiceNumber, uninvoicedReason } =
    state === "reported" || state === "corrected"
      ? findInvoiceOf({ kind, createdAt, isLate }, accountBilling.invoiced, accountBilling.trial)
      : { invoiceNumber: null, uninvoicedReason: null };
  return {
    registration_id: shownIdOf(usage),
    kind,
    state,
    count: usage.count,
    refunded_count: usage.refundedCount,
    created_at: createdAt.toISOString(),
    period: period && { start: period.start.toISOString(), end: period.end.toISOString() },
    invoice_number: invoiceNumber,
    uninvoiced_reason: uninvoicedReason,
  };
};

/**
 * @param kinds where to look for the registration, in this order
 * @throws DomainError record_not_found
 */
export const readUsageReport = async (
  { db, billing }: Pick<BillingContext, "db" | "billing">,
  accountMode: AccountMode,
  id: string,
  kinds: readonly Kind[],
): Promise<UsageReport> => {
  for (const kind of kinds) {
    const owner = { ...accountMode, kind };
    const usage = await findRegistrationUsage(db, owner, id);
    if (usage) {
      return presentUsage(await readAccountBilling(db, billing, accountMode), owner, usage);
    }
  }
  throw new DomainError("record_not_found", "failed to find registration");
};

/** Returns how far the usage of a registration has come, and its meter events. */
export const readUsageEvents = async (
  db: CommonQueryMethods,
  registration: Owner & { readonly id: string },
) => {
  const usage = await findRegistrationUsage(db, registration, registration.id);
  return {
    state: usage === null ? "not_billed" : usageStateOf(usage, usage.states),
    events: await listMeterEventsOf(db, { registrationId: registration.id }),
  };
};

export type UsageWithEvents = Awaited<ReturnType<typeof readUsageEvents>>;

type Range = { readonly from?: Date | undefined; readonly until?: Date | undefined };

/** Returns the kinds that a part of a list of several kinds has. */
const kindsFrom = async (
  db: CommonQueryMethods,
  accountMode: AccountMode,
  kinds: readonly Kind[],
  startingAfter: string,
): Promise<readonly Kind[]> => {
  for (const [index, kind] of kinds.entries()) {
    if (await findListPosition(db, { ...accountMode, kind }, startingAfter)) {
      return kinds.slice(index);
    }
  }
  throw invalidRequest("starting_after: is not the id of a registration in this list");
};

/**
 * Lists how far the billing of registrations has come: the kinds in the given order, each newest first.
 * @throws DomainError request_invalid if the account has no registration `startingAfter`
 */
export async function* listUsageReports(
  context: ListContext & Pick<BillingContext, "billing">,
  accountMode: AccountMode,
  { kinds, startingAfter, limit, ...range }: Range & ListPart & { readonly kinds: readonly Kind[] },
): AsyncGenerator<SearchedPage<UsageReport, UsageReport>, void, void> {
  const { lists: db, billing } = context;
  const accountBilling = await readAccountBilling(db, billing, accountMode);
  const wanted =
    startingAfter === null ? kinds : await kindsFrom(db, accountMode, kinds, startingAfter);
  for (const kind of wanted) {
    const owner = { ...accountMode, kind };
    const { pages } = listRegistrations(context, owner, range, {
      startingAfter: kind === wanted[0] ? startingAfter : null,
      limit,
    });
    for await (const { rows } of pages) {
      const ids = Array.from(rows, ({ id }) => id);
      const reports = (await listRegistrationUsage(db, owner, ids)).map((usage) =>
        presentUsage(accountBilling, owner, usage),
      );
      yield { rows: reports, last: reports.at(-1) ?? null };
    }
  }
}
