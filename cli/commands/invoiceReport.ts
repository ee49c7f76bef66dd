import { compareInvoices } from "../../modules/billing/invoices/compareInvoices.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import { readDatabaseTime } from "../../modules/billing/readDatabaseTime.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import type { InvoicedUsage } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import {
  describeInvoiceProblem,
  needingAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printRows } from "../output/print.ts";
import type { Columns } from "../output/print.ts";

export const presentInvoiced = (usage: InvoicedUsage) => ({
  customer_id: usage.customerId,
  account_ids: usage.accountIds,
  meter: usage.kind,
  from: timeOf(usage.start),
  to: timeOf(usage.end),
  subscription_id: usage.subscriptionId,
  other_subscription_id: usage.otherSubscriptionId,
  invoice_id: usage.invoiceId,
  invoice_number: usage.invoiceNumber,
  invoiced: usage.quantity,
  delivered: usage.delivered,
  problem: usage.problem,
  problem_units: usage.units,
  needs_attention: needingAttention([usage]).length > 0,
});

const COLUMNS: Columns<InvoicedUsage> = {
  organization: (usage) => usage.accountNames,
  customer: (usage) => usage.customerId,
  meter: (usage) => usage.kind,
  from: (usage) => timeOf(usage.start),
  to: (usage) => timeOf(usage.end),
  invoice: (usage) => usage.invoiceNumber ?? usage.invoiceId,
  invoiced: (usage) => usage.quantity,
  delivered: (usage) => usage.delivered,
  units: (usage) => usage.units,
  problem: (usage) => usage.problem,
};

/** Prints the usage that no invoice has, that differs from it, or that two have, and the reasons. */
export const printInvoiceProblems = (io: Io, problems: readonly InvoicedUsage[]): void => {
  if (problems.length === 0) {
    return;
  }
  io.stdout.write("\n");
  printRows(io, problems, COLUMNS);
  for (const usage of problems) {
    say(io, `${usage.accountNames}: ${describeInvoiceProblem(usage)}.`);
  }
};

/** Says which invoice has the usage of a statement, and why none has some. */
export const sayInvoiced = (io: Io, invoiced: readonly InvoicedUsage[]): void => {
  for (const usage of invoiced) {
    const span = `from ${formatTime(timeOf(usage.start))} to ${formatTime(timeOf(usage.end))}`;
    const { kind, quantity, problem, invoiceNumber } = usage;
    const isLine = problem === null || problem === "late" || problem === "differs";
    if (isLine && quantity !== null) {
      say(io, `${kind}: ${quantity} invoiced in ${invoiceNumber}, ${span}.`);
    }
    if (problem !== null) {
      say(io, `${kind}: ${describeInvoiceProblem(usage)}, ${span}.`);
    }
  }
};

/** As long as a nightly comparison may take. */
const TIMEOUT_MS = 6 * HOUR_MS;

export type InvoiceComparison = {
  readonly problems: readonly InvoicedUsage[];
  /** Why invoices could not be read; null if all were. */
  readonly failure: Error | null;
};

/** Compares the invoices of all customers (null), or of one organization's. */
export const compareWithInvoices = async (
  context: CliContext,
  accountId: string | null,
): Promise<InvoiceComparison> => {
  const deps = { ...(await openBilling(context)), pace: await context.connections.pace() };
  const failure = await compareInvoices(
    deps,
    { accountId, readBefore: await readDatabaseTime(deps.db, deps.clock) },
    {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      onFailure: (id, error) =>
        say(context.io, `The invoices of ${id} could not be read: ${describeError(error)}`),
    },
  ).then(
    ({ failed }) =>
      failed === 0
        ? null
        : new CommandError(
            EXIT.failed,
            `The invoices of ${counted(failed, "customer")} could not be read.`,
          ),
    (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
  );
  return { problems: await listInvoicedUsage(deps.db, accountId, { onlyProblems: true }), failure };
};
