import { Option } from "@commander-js/extra-typings";
import { formatCsvLine } from "../../runtime/formatRows.ts";
import { nameOf } from "../../modules/billing/meterEvents.rules.ts";
import { presentStatement, readStatement } from "../../modules/billing/readStatement.ts";
import type { KindStatement, Statement } from "../../modules/billing/readStatement.ts";
import {
  describeInvoiceProblem,
  needsAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { requireOrganization, ORGANIZATION_OPTION } from "../accountOptions.ts";
import { parseMode } from "../arguments.ts";
import type { Define } from "../command.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { formatTime } from "../output/formatTable.ts";
import { presentMeterEvent } from "../output/printUsage.ts";
import { escapeUnsafeInLines } from "../output/printable.ts";
import { parsePeriodOrCurrent } from "../timeRange.ts";

/** Returns a statement as clients see it, with the differences that operators decide about. */
export const presentForOperators = (read: Statement) => {
  const presented = presentStatement(read);
  return {
    account_id: read.account.id,
    account_name: read.account.name,
    ...presented,
    statements: presented.statements.map((statement, index) =>
      Object.assign(statement, {
        open_differences: read.statements[index]?.openDifferences.map(presentMeterEvent),
      }),
    ),
  };
};

/** Says which invoices have the usage, or why none has it, and where Stripe's sums differ. */
export const describeBilling = ({
  kind,
  openDifferences,
  invoiced,
}: KindStatement): readonly string[] => [
  ...openDifferences.map(
    (difference) => `${kind}, ${nameOf(difference)}: ${difference.lastError}.`,
  ),
  ...invoiced.map((usage) => {
    const what =
      describeInvoiceProblem(usage) ?? `${usage.quantity} invoiced in ${usage.invoiceNumber}`;
    return `${kind}: ${what}, from ${formatTime(timeOf(usage.start))} to ${formatTime(timeOf(usage.end))}.`;
  }),
];

/** Returns the sums of each kind for a table, those of its days first. */
export const listSums = (statements: readonly KindStatement[]) =>
  statements.flatMap(({ kind, days, total }) =>
    [...days, { day: "total", ...total }].map((sums) => Object.assign({ meter: kind }, sums)),
  );

/** @throws CommandError if Stripe's sums or invoices did not confirm the statements when they were last compared */
const requireConfirmed = (statements: readonly KindStatement[]): void => {
  const problems = [
    ...(statements.some(({ openDifferences }) => openDifferences.length > 0)
      ? ["Stripe does not have exactly what was delivered."]
      : []),
    ...statements
      .flatMap(({ invoiced }) => invoiced.filter(needsAttention))
      .map((usage) => `Not invoiced exactly once: ${describeInvoiceProblem(usage)}.`),
  ];
  if (problems.length > 0) {
    throw new CommandError(
      EXIT.failed,
      `${problems.join(" ")} To compare again, run: impact usage reconcile`,
    );
  }
};

const STATEMENT_HELP = `
Days are those of the registrations, UTC; a refund counts on the day of its registration,
as at Stripe. registered - refunded = reported + late + failed + closed + documented +
pending. closed is never billed; documented is billed or returned by an invoice item or a
credit note.
Invoices and differences are as of the last comparison, each night or by impact usage
reconcile. The exit code is 1 if a difference is open, or usage is not invoiced exactly once.
impact export lists the registrations behind a statement.`;

export const defineStatementCommand: Define = (command, cli) => {
  command
    .requiredOption(...ORGANIZATION_OPTION)
    .requiredOption(
      "--period <period>",
      "YYYY-MM (a month, UTC), FROM/TO or current (the billing cycle)",
      parsePeriodOrCurrent,
    )
    .option("--mode <live|test>", "mode", parseMode, "live")
    .addOption(new Option("--csv", "CSV output").conflicts("json"))
    .addHelpText("after", STATEMENT_HELP)
    .action(async ({ org, period, mode, csv }) => {
      const { account } = await cli.openAccount({ org });
      requireOrganization(account);
      const owner = { accountId: account.id, mode };
      const read = await readStatement(await cli.openBilling(), owner, period);
      const { statements, subscription } = read;
      if (cli.io.json) {
        cli.printJson(presentForOperators(read));
      } else {
        const rows = listSums(statements);
        const lines = [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))];
        if (csv) {
          cli.io.stdout.write(
            lines.map((line) => formatCsvLine(line, escapeUnsafeInLines)).join(""),
          );
        } else {
          cli.printObjects(rows);
        }
        for (const statement of statements) {
          const { start, end } = statement.period;
          cli.say(`${statement.kind}: from ${formatTime(start)} to ${formatTime(end)}.`);
          for (const line of describeBilling(statement)) {
            cli.say(line);
          }
        }
        if (subscription?.trial) {
          const { start, end } = subscription.trial;
          cli.say(`usage in the trial from ${formatTime(start)} to ${formatTime(end)} is free.`);
        }
      }
      requireConfirmed(statements);
    });
};
