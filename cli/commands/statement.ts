import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { formatCsvLine } from "../../runtime/formatRows.ts";
import { presentStatement, presentSums } from "../../modules/billing/presentStatement.rules.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import type { KindStatement, Statement } from "../../modules/billing/readStatement.ts";
import {
  describeInvoiceProblem,
  needingAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listStreamsNeedingAttention } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { openAccount, requiredAccount } from "../accountOptions.ts";
import { parseMode } from "../arguments.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printObjects, snakeCased } from "../output/print.ts";
import { escapeUnsafeInLines } from "../output/printable.ts";
import { exitCodeOfProblems } from "../output/printUsage.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";

/**
 * Returns whether Stripe's sum differs, beyond what is being sent or asked about, or could not be read. A customer to which
 * nothing was delivered cannot disagree.
 */
const disagrees = (compared: StreamReport): boolean =>
  listStreamsNeedingAttention([compared]).length > 0 &&
  (compared.error === null || compared.delivered !== 0);

const presentComparison = ({ differences, ...compared }: StreamReport) => ({
  ...snakeCased(compared),
  needs_attention: disagrees({ ...compared, differences }),
});

/** Returns a statement as clients see it, with Stripe's own sums. */
export const presentForOperators = (
  { account, subscription, statements }: Statement,
  mode: Mode,
) => ({
  account_id: account.id,
  account_name: account.name,
  paid_from: account.type === "store" ? "balance" : "usage",
  ...presentStatement(mode, subscription, []),
  statements: statements.map((statement) =>
    statement.paidFrom === "balance"
      ? presentSums(statement)
      : {
          ...presentStatement(mode, subscription, [statement]).statements[0],
          comparisons: statement.comparisons.map(presentComparison),
        },
  ),
});

/** Says whether Stripe's sum agrees with what was delivered, and with what was registered. */
const verdictOf = (compared: StreamReport, failed: number): string => {
  if (compared.processorQuantity !== compared.delivered) {
    return disagrees(compared)
      ? "they differ; run impact usage reconcile"
      : "they differ by usage that is being sent, was sent just now, or is asked about";
  }
  return failed === 0
    ? "they agree"
    : `but ${counted(failed, "unit has", "units have")} failed and ${failed === 1 ? "is" : "are"} not billed; run impact usage`;
};

/** Says what each customer at Stripe has, and whether that agrees; and which invoices have it, or why none has it. */
export const describeBilling = (statement: KindStatement): readonly string[] => {
  if (statement.paidFrom === "balance") {
    return [];
  }
  const { kind, comparisons, invoiced, total } = statement;
  return [
    ...comparisons.map((compared) => {
      const { customerId, delivered, processorQuantity, error } = compared;
      return error === null
        ? `${kind}: Stripe has ${processorQuantity} of ${customerId}, delivered ${delivered}: ${verdictOf(compared, total.failed)}.`
        : `${kind}: Stripe's sum of ${customerId} could not be read: ${error}`;
    }),
    ...invoiced.map((usage) => {
      const what =
        describeInvoiceProblem(usage) ?? `${usage.quantity} invoiced in ${usage.invoiceNumber}`;
      return `${kind}: ${what}, from ${formatTime(timeOf(usage.start))} to ${formatTime(timeOf(usage.end))}.`;
    }),
  ];
};

/** Prints the sums of each kind, those of its days first. */
export const printSums = (
  io: Io,
  statements: readonly KindStatement[],
  { isCsv = false }: { readonly isCsv?: boolean } = {},
): void => {
  const rows = statements.flatMap(({ kind, days, total }) =>
    [...days, { day: "total", ...total }].map((sums) => Object.assign({ meter: kind }, sums)),
  );
  if (!isCsv) {
    printObjects(io, rows);
    return;
  }
  const headings = ["meter", "day", ...Object.keys(statements[0]?.total ?? {})];
  for (const row of [headings, ...rows.map((each) => Object.values<string | number>(each))]) {
    io.stdout.write(formatCsvLine(row, escapeUnsafeInLines));
  }
};

/** @throws CommandError if Stripe's sums or invoices do not confirm the statements */
const requireConfirmed = (statements: readonly KindStatement[]): void => {
  const billed = statements.flatMap((each) => (each.paidFrom === "usage" ? [each] : []));
  const disagreements = billed.flatMap(({ comparisons }) => comparisons).filter(disagrees);
  if (disagreements.length > 0) {
    const unread = disagreements.filter(({ error }) => error !== null).length;
    throw new CommandError(
      exitCodeOfProblems(disagreements),
      `Stripe does not confirm the statement: ${counted(disagreements.length - unread, "of its sums differs", "of its sums differ")}, ${unread} could not be read.`,
    );
  }
  if (billed.some(({ invoiced }) => needingAttention(invoiced).length > 0)) {
    throw new CommandError(
      EXIT.failed,
      "The invoices do not have exactly what was delivered. To compare them again, run: impact usage reconcile",
    );
  }
};

const STATEMENT_HELP = `
Days are those of the registrations, UTC; a refund counts on the day of its registration,
as at Stripe. registered - refunded + differences = reported + late + failed + closed +
documented + pending. closed is never billed; documented is billed or returned by an
invoice item or a credit note; differences are units that an operator has sent, taken back
or accepted without a registration.
What is invoiced is as of the last comparison, each night or by impact usage reconcile.
The exit code is 1 if a sum of Stripe differs, or could not be read, or if usage is not
invoiced exactly once. It is 4 if none differs and Stripe cannot be used. A difference does
not count if deliveries in progress or of the last 15 minutes explain it. impact export
lists the registrations behind a statement.`;

/** As long as comparing with the processor may take. */
const TIMEOUT_MS = 10 * 60 * 1000;

export const defineStatementCommand = (command: Command, context: CliContext): void => {
  command
    .addOption(requiredAccount())
    .requiredOption(
      "--period <period>",
      "YYYY-MM (a month, UTC), FROM/TO or current (the billing cycle)",
      parsePeriodOrCurrent,
    )
    .option("--mode <live|test>", "mode", parseMode, "live")
    .addOption(new Option("--csv", "CSV output").conflicts("json"))
    .addHelpText("after", STATEMENT_HELP)
    .action(async ({ org, period, mode, csv }) => {
      const { io } = context;
      const { account } = await openAccount(context, { org });
      const read = await readStatement(
        await openBilling(context),
        { accountId: account.id, mode },
        period === CURRENT ? null : period,
        AbortSignal.timeout(TIMEOUT_MS),
      );
      const { statements, subscription } = read;
      if (io.json) {
        printJson(io, presentForOperators(read, mode));
      } else {
        printSums(io, statements, { isCsv: csv === true });
        for (const statement of statements) {
          const { start, end } = statement.period;
          say(io, `${statement.kind}: from ${formatTime(start)} to ${formatTime(end)}.`);
          for (const line of describeBilling(statement)) {
            say(io, line);
          }
        }
        if (subscription?.trial) {
          const { start, end } = subscription.trial;
          say(io, `usage in the trial from ${formatTime(start)} to ${formatTime(end)} is free.`);
        }
      }
      requireConfirmed(statements);
    });
};
