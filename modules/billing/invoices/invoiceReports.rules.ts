import { z } from "zod";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { Period } from "../usage.rules.ts";
import { isWithin } from "../usage.rules.ts";
import { INVOICE_PROBLEMS, isFree, needsOperator, UNINVOICED_REASONS } from "./invoices.rules.ts";
import type { InvoiceProblem, UninvoicedReason } from "./invoices.rules.ts";

const integer = z.bigint().transform(Number);

export const invoicedUsageRow = z.strictObject({
  customerId: z.string(),
  kind: z.enum(KINDS),
  start: integer,
  end: integer,
  accountNames: z.string(),
  accountIds: z.array(z.uuid()),
  subscriptionId: z.string().nullable(),
  otherSubscriptionId: z.string().nullable(),
  invoiceId: z.string().nullable(),
  invoiceNumber: z.string().nullable(),
  quantity: integer.nullable(),
  delivered: integer,
  problem: z.enum(INVOICE_PROBLEMS).nullable(),
  units: integer,
});

/** The usage of a customer in a span, as it was last compared with the invoices. */
export type InvoicedUsage = Readonly<z.output<typeof invoicedUsageRow>>;

const REASONS: Readonly<Record<InvoiceProblem, (usage: InvoicedUsage, invoice: string) => string>> =
  {
    trial: ({ subscriptionId }) => `the trial of ${subscriptionId} charges nothing`,
    paused_void: ({ subscriptionId }, invoice) =>
      `the collection of ${subscriptionId} was paused, and ${invoice} is void`,
    paused_mark_uncollectible: ({ subscriptionId }, invoice) =>
      `the collection of ${subscriptionId} was paused, and ${invoice} is marked uncollectible`,
    paused_keep_as_draft: ({ subscriptionId }, invoice) =>
      `the collection of ${subscriptionId} was paused, and ${invoice} is kept as a draft`,
    draft: (_, invoice) => `${invoice} is still a draft`,
    voided: (_, invoice) => `${invoice} was voided`,
    late: (_, invoice) => `they were delivered after ${invoice} was finalized`,
    no_invoice: ({ subscriptionId }) => `${subscriptionId} has no invoice of this time`,
    ended: ({ subscriptionId }) => `${subscriptionId} ended without an invoice`,
    after_end: ({ subscriptionId }) => `${subscriptionId} had ended`,
    before_subscription: ({ subscriptionId }) => `${subscriptionId} had not begun`,
    no_subscription: () => "the customer has no subscription",
    unpriced: ({ subscriptionId }) => `${subscriptionId} has no price on the meter`,
    differs: ({ delivered, quantity }, invoice) =>
      `${invoice} has ${quantity}, but ${delivered} were delivered`,
    twice: ({ subscriptionId, otherSubscriptionId }) =>
      `${subscriptionId} and ${otherSubscriptionId} both have a price on the meter`,
  };

/** Returns what is wrong with usage, such as "5 trees on no invoice: sub_1 had ended"; null if nothing is. */
export const describeInvoiceProblem = (usage: InvoicedUsage): string | null => {
  const { problem, kind, units, invoiceNumber, invoiceId } = usage;
  if (problem === null) {
    return null;
  }
  const reason = REASONS[problem](usage, `invoice ${invoiceNumber ?? invoiceId}`);
  const what =
    problem === "twice" ? "invoiced twice" : units < 0 ? "too many on an invoice" : "on no invoice";
  return `${Math.abs(units)} ${kind}${Math.abs(units) === 1 ? "" : "s"} ${what}: ${reason}`;
};

/** Returns the usage that needs an operator. */
export const needingAttention = (usage: readonly InvoicedUsage[]): readonly InvoicedUsage[] =>
  usage.filter(({ problem }) => problem !== null && needsOperator(problem));

/** Describes all usage that is not invoiced exactly once and should be. */
export const describeInvoiceProblems = (usage: readonly InvoicedUsage[]): readonly string[] =>
  usage.flatMap((each) =>
    each.problem === null || isFree(each.problem) ? [] : (describeInvoiceProblem(each) ?? []),
  );

const isUninvoiced = (problem: InvoiceProblem | null): problem is UninvoicedReason =>
  UNINVOICED_REASONS.some((reason) => reason === problem);

/** The invoice that has a registration's usage, or why none has; both null while that is not known. */
export type RegistrationInvoice = {
  readonly invoiceNumber: string | null;
  readonly uninvoicedReason: UninvoicedReason | null;
};

/** @param trial the present or latest one, which is known before invoices are compared */
export const findInvoiceOf = (
  {
    kind,
    createdAt,
    isLate,
  }: { readonly kind: Kind; readonly createdAt: Date; readonly isLate: boolean },
  {
    invoiced,
    trial,
  }: { readonly invoiced: readonly InvoicedUsage[]; readonly trial: Period | null },
): RegistrationInvoice => {
  const second = secondOf(createdAt);
  const covering = invoiced.filter(
    (usage) => usage.kind === kind && usage.start <= second && second < usage.end,
  );
  const line = covering.find(
    ({ problem }) => problem === null || problem === "late" || problem === "differs",
  );
  if (line && !(line.problem === "late" && isLate)) {
    return { invoiceNumber: line.invoiceNumber, uninvoicedReason: null };
  }
  const reason = covering.map(({ problem }) => problem).find(isUninvoiced);
  const isInTrial = trial !== null && isWithin(trial, createdAt);
  return { invoiceNumber: null, uninvoicedReason: reason ?? (isInTrial ? "trial" : null) };
};
