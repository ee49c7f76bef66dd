import { z } from "zod";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { Period } from "../usage.rules.ts";
import { isWithin } from "../usage.rules.ts";
import { INVOICE_PROBLEMS, isUninvoiced } from "./invoices.rules.ts";
import type { ComparedUsage, InvoiceProblem } from "./invoices.rules.ts";

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

const REASONS: Readonly<Record<InvoiceProblem, string>> = {
  trial: "the trial of SUB charges nothing",
  paused_void: "the collection of SUB was paused, and INVOICE is void",
  paused_mark_uncollectible:
    "the collection of SUB was paused, and INVOICE is marked uncollectible",
  paused_keep_as_draft: "the collection of SUB was paused, and INVOICE is kept as a draft",
  draft: "INVOICE is still a draft",
  voided: "INVOICE was voided",
  late: "delivered after INVOICE was finalized",
  no_invoice: "SUB has no invoice of this time",
  ended: "SUB ended without an invoice",
  after_end: "SUB had ended",
  before_subscription: "SUB had not begun",
  no_subscription: "the customer has no subscription",
  unpriced: "SUB has no price on the meter",
  differs: "INVOICE has QUANTITY, but DELIVERED were delivered",
  twice: "SUB and OTHER both have a price on the meter",
};

/** Returns the reason of a problem, such as "sub_1 had ended". */
export const explainProblem = (
  problem: InvoiceProblem,
  usage: Omit<ComparedUsage, "problem" | "finalizedAt">,
): string => {
  const values: Readonly<Record<string, unknown>> = {
    SUB: usage.subscriptionId,
    OTHER: usage.otherSubscriptionId,
    INVOICE: `invoice ${usage.invoiceNumber ?? usage.invoiceId}`,
    QUANTITY: usage.quantity,
    DELIVERED: usage.delivered,
  };
  return REASONS[problem].replaceAll(/[A-Z]{3,}/gu, (name) => String(values[name]));
};

/** Returns what is wrong with usage, such as "5 trees on no invoice: sub_1 had ended"; null if nothing is. */
export const describeInvoiceProblem = (usage: InvoicedUsage): string | null => {
  const { problem, kind, units } = usage;
  if (problem === null) {
    return null;
  }
  const what =
    problem === "twice" ? "invoiced twice" : units < 0 ? "too many on an invoice" : "on no invoice";
  return `${Math.abs(units)} ${kind}${Math.abs(units) === 1 ? "" : "s"} ${what}: ${explainProblem(problem, usage)}`;
};

/** Returns whether usage needs an operator. A trial is free, and a customer without a subscription is a setting. */
export const needsAttention = ({ problem }: Pick<InvoicedUsage, "problem">): boolean =>
  problem !== null && problem !== "trial" && problem !== "no_subscription";

/** Describes all usage that is not invoiced exactly once and should be. */
export const describeInvoiceProblems = (usage: readonly InvoicedUsage[]): readonly string[] =>
  usage.flatMap((each) => (each.problem === "trial" ? [] : (describeInvoiceProblem(each) ?? [])));

/**
 * Returns the invoice that has a registration's usage, or why none has; both null while that is not known.
 * @param trial the present or latest one, which is known before invoices are compared
 */
export const findInvoiceOf = (
  usage: { readonly kind: Kind; readonly createdAt: Date; readonly isLate: boolean },
  invoiced: readonly InvoicedUsage[],
  trial: Period | null,
) => {
  const { kind, createdAt, isLate } = usage;
  const second = secondOf(createdAt);
  const covering = invoiced.filter(
    (each) => each.kind === kind && each.start <= second && second < each.end,
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
