import { Option } from "commander";
import type { Command } from "commander";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { formatCsvLine } from "../../runtime/formatRows.ts";
import type { CsvValue } from "../../runtime/formatRows.ts";
import { readStatement, readStatementDetails } from "../../modules/billing/readStatement.ts";
import type { KindStatement } from "../../modules/billing/readStatement.ts";
import { needingAttention } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listStreamsNeedingAttention } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { parseId, parseMode } from "../arguments.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printTable, printText, writeOut } from "../output/print.ts";
import { escapeUnsafe, escapeUnsafeInLines } from "../output/printable.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { presentInvoiced, sayInvoiced, exitCodeOfProblems } from "./usageReconcile.ts";

/** Formats one line of CSV for output. Line feeds stay; what else a terminal would obey is escaped. */
const formatPrintableCsvLine = (values: readonly CsvValue[]): string =>
  formatCsvLine(values, escapeUnsafeInLines);

type StatementOptions = {
  readonly org: string;
  readonly period: Period | typeof CURRENT;
  readonly mode: Mode;
  readonly csv?: true;
  readonly json?: true;
  readonly detail?: true;
};

/**
 * Returns whether Stripe's sum differs, beyond what is being sent or asked about, or could not be read. A customer to which
 * nothing was delivered cannot disagree.
 */
const disagrees = (compared: StreamReport): boolean =>
  listStreamsNeedingAttention([compared]).length > 0 &&
  (compared.error === null || compared.delivered !== 0);

const disagreementsOf = (statements: readonly KindStatement[]): readonly StreamReport[] =>
  statements
    .flatMap((statement) => (statement.paidFrom === "usage" ? statement.comparisons : []))
    .filter(disagrees);

const presentKind = (statement: KindStatement) => ({
  meter: statement.kind,
  from: statement.period.start,
  to: statement.period.end,
  days: statement.days,
  totals: statement.total,
  ...(statement.paidFrom === "balance"
    ? {}
    : {
        processors: statement.comparisons.map((compared) => ({
          processor: "stripe",
          customer_id: compared.customerId,
          delivered: compared.delivered,
          processor_quantity: compared.processorQuantity,
          agrees:
            compared.processorQuantity === null
              ? null
              : compared.processorQuantity === compared.delivered && statement.total.failed === 0,
          needs_attention: disagrees(compared),
          error: compared.error,
        })),
        invoiced: statement.invoiced.map(presentInvoiced),
        trial: statement.trial && { from: statement.trial.start, to: statement.trial.end },
      }),
});

/** Returns the statements of an account as `--json` prints them. */
export const presentStatements = ({ id, name }: Account, statements: readonly KindStatement[]) => ({
  account_id: id,
  account_name: name,
  meters: statements.map(presentKind),
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

/** Says for each customer at Stripe what it has, and whether that agrees. */
const describeComparisons = (statement: KindStatement): readonly string[] =>
  statement.paidFrom === "balance"
    ? []
    : statement.comparisons.map((compared) => {
        const { customerId, delivered, processorQuantity, error } = compared;
        return error === null
          ? `${statement.kind}: Stripe has ${processorQuantity} of ${customerId}, delivered ${delivered}: ${verdictOf(compared, statement.total.failed)}.`
          : `${statement.kind}: Stripe's sum of ${customerId} could not be read: ${error}`;
      });

/** Prints the totals of each kind. */
export const printTotals = (io: Io, statements: readonly KindStatement[]): void => {
  printTable(
    io,
    ["meter", "from", "to", ...Object.keys(statements[0]?.total ?? {})],
    statements.map(({ kind, period: { start, end }, total }) => [
      kind,
      start,
      end,
      ...Object.values(total),
    ]),
  );
};

/** Says which invoices have the usage of a statement, and which of it is free. */
const sayInvoices = (io: Io, statement: KindStatement): void => {
  if (statement.paidFrom === "balance") {
    return;
  }
  sayInvoiced(io, statement.invoiced);
  if (statement.trial !== null) {
    const { start, end } = statement.trial;
    say(
      io,
      `${statement.kind}: usage in the trial from ${formatTime(start)} to ${formatTime(end)} is free.`,
    );
  }
};

export const printComparisons = (io: Io, statement: KindStatement): void => {
  for (const line of describeComparisons(statement)) {
    printText(io, line);
  }
};

const printStatement = (io: Io, statements: readonly KindStatement[], isCsv: boolean): void => {
  const headings = ["meter", "day", ...Object.keys(statements[0]?.total ?? {})];
  const rows = statements.flatMap(({ kind, days, total }) =>
    [...days, { day: "total", ...total }].map(({ day, ...sums }) => {
      const cells: (string | number)[] = [kind, day];
      return cells.concat(Object.values(sums));
    }),
  );
  if (!isCsv) {
    printTable(io, headings, rows);
    return;
  }
  for (const row of [headings, ...rows]) {
    io.stdout.write(formatPrintableCsvLine(row));
  }
};

const printDetails = async (
  io: Io,
  details: ReturnType<typeof readStatementDetails>,
  isCsv: boolean,
): Promise<void> => {
  const headings = [
    "registration_id",
    "meter",
    "created_at",
    "count",
    "refunded_count",
    "usage_states",
    "idempotency_key",
    "attribution",
    "order_id",
    "customer_email",
  ];
  if (isCsv) {
    await writeOut(io, formatPrintableCsvLine(headings));
  }
  for await (const detail of details) {
    const values = [
      shownIdOf(detail),
      detail.kind,
      detail.createdAt,
      detail.count,
      detail.refundedCount,
      detail.usageStates,
      detail.idempotencyKey,
      detail.attribution,
      detail.orderId,
      detail.customerEmail,
    ];
    const line = isCsv
      ? formatPrintableCsvLine(values)
      : `${escapeUnsafe(JSON.stringify(Object.fromEntries(headings.map((name, column) => [name, values[column]]))))}\n`;
    await writeOut(io, line);
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
not count if deliveries in progress or of the last 15 minutes explain it.
--detail prints one line for each registration: JSON, or CSV with --csv.`;

/** As long as comparing with the processor may take. */
const TIMEOUT_MS = 10 * 60 * 1000;

export const defineStatementCommand = (command: Command, context: CliContext): void => {
  command
    .requiredOption("--org <id>", "id of the organization or store", parseId)
    .requiredOption(
      "--period <period>",
      "YYYY-MM (a month, UTC), FROM/TO or current (the billing cycle)",
      parsePeriodOrCurrent,
    )
    .option("--mode <live|test>", "mode", parseMode, "live")
    .addOption(new Option("--csv", "CSV output").conflicts("json"))
    .option("--detail", "list the registrations")
    .addHelpText("after", STATEMENT_HELP)
    .action(
      async ({ org: accountId, period: given, mode, csv, json, detail }: StatementOptions) => {
        const { io } = context;
        const period = given === CURRENT ? null : given;
        const deps = await openBilling(context);
        const owner = { accountId, mode };
        if (detail) {
          await printDetails(io, readStatementDetails(deps, owner, period), csv === true);
          return;
        }
        const { account, statements } = await readStatement(
          deps,
          owner,
          period,
          AbortSignal.timeout(TIMEOUT_MS),
        );
        if (json) {
          printJson(io, {
            ...presentStatements(account, statements),
            mode,
            paid_from: account.type === "store" ? "balance" : "usage",
          });
        } else {
          printStatement(io, statements, csv === true);
          for (const statement of statements) {
            const { start, end } = statement.period;
            say(io, `${statement.kind}: from ${formatTime(start)} to ${formatTime(end)}.`);
            for (const line of describeComparisons(statement)) {
              say(io, line);
            }
            sayInvoices(io, statement);
          }
        }
        const uninvoiced = statements.flatMap((statement) =>
          statement.paidFrom === "usage" ? needingAttention(statement.invoiced) : [],
        );
        const disagreements = disagreementsOf(statements);
        if (disagreements.length > 0) {
          const unread = disagreements.filter(
            ({ error: unreadable }) => unreadable !== null,
          ).length;
          throw new CommandError(
            exitCodeOfProblems(disagreements),
            `Stripe does not confirm the statement: ${counted(disagreements.length - unread, "of its sums differs", "of its sums differ")}, ${unread} could not be read.`,
          );
        }
        if (uninvoiced.length > 0) {
          throw new CommandError(
            EXIT.failed,
            "The invoices do not have exactly what was delivered. To compare them again, run: impact usage reconcile",
          );
        }
      },
    );
};
