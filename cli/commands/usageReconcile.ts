import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import type { Cli, Define } from "../command.ts";
import { only, snakeCased } from "../output/print.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { formatTime } from "../output/formatTable.ts";
import { presentMeterEvent, printEvents } from "../output/printUsage.ts";
import { requireProcessor } from "../../modules/billing/createBilling.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { compareInvoices } from "../../modules/billing/invoices/compareInvoices.ts";
import {
  describeInvoiceProblem,
  needsAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import type { InvoicedUsage } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import { readDatabaseTime } from "../../modules/billing/readDatabaseTime.ts";
import { reconcileUsage } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { listMeterEvents } from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import type { Span } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";

/** As long as a nightly comparison may take. */
const TIMEOUT_MS = 6 * HOUR_MS;

/** The most differences that are shown; `usage list` has more. */
const MAXIMUM_SHOWN = 100;

const formatSpan = ({ start, end }: Span): string =>
  `from ${formatTime(timeOf(start))} to ${formatTime(timeOf(end))}`;

type Reconciliation = Awaited<ReturnType<typeof reconcileUsage>>;

const print = (
  cli: Cli,
  { span, streams }: Reconciliation,
  problems: readonly InvoicedUsage[],
  differences: readonly ListedMeterEvent[],
): void => {
  const sums = streams.map(({ differences: _minutes, ...stream }) => snakeCased(stream));
  const result = {
    from: timeOf(span.start),
    to: timeOf(span.end),
    streams: sums,
    differences: differences.map(presentMeterEvent),
    invoice_problems: problems.map((usage) => ({
      ...snakeCased(usage),
      start: timeOf(usage.start),
      end: timeOf(usage.end),
      needs_attention: needsAttention(usage),
    })),
  };
  cli.printResult(result, () => {
    cli.printObjects(
      only(sums, ["account_name", "kind", "customer_id", "delivered", "processor_quantity"]),
    );
    if (differences.length > 0) {
      cli.io.stdout.write("\n");
      printEvents(cli, differences);
    }
    for (const usage of problems) {
      const what = describeInvoiceProblem(usage);
      cli.say(`${usage.accountNames}, ${usage.customerId}, ${formatSpan(usage)}: ${what}.`);
    }
  });
  for (const { accountName, kind, customerId, error } of streams) {
    if (error !== null) {
      cli.say(`${accountName}, ${kind}, at ${customerId} could not be compared: ${error}`);
    }
  }
  const skipped = streams.reduce((sum, stream) => sum + stream.skipped, 0);
  if (skipped > 0) {
    const were = counted(skipped, "minute was", "minutes were");
    cli.say(
      `${were} skipped: Stripe's sums may lag, or what \`impact usage\` lists may explain them. Repeat the command in 15 minutes.`,
    );
  }
  cli.say(`Compared ${formatSpan(span)}; later usage is not compared yet.`);
};

/** @throws CommandError if streams differ or were not compared; "unreachable" only if none differs */
const requireEqualSums = ({ streams, drifting }: Reconciliation): void => {
  const differing = drifting.filter(({ error }) => error === null).length;
  if (drifting.length > 0) {
    throw new CommandError(
      differing === 0 ? EXIT.unreachable : EXIT.failed,
      `Of ${counted(streams.length, "stream")}, ${differing} ${differing === 1 ? "differs" : "differ"} at Stripe, and ${drifting.length - differing} could not be compared. See impact usage.`,
    );
  }
};

/** @throws CommandError if a customer's invoices could not be read, or usage is not invoiced exactly once */
const requireInvoiced = (unread: number, problems: readonly InvoicedUsage[]): void => {
  const { length: spans } = problems.filter(needsAttention);
  const others = problems.length - spans;
  const rest =
    others > 0 ? `; ${counted(others, "other")} in a trial or without a subscription` : "";
  if (unread + spans > 0) {
    throw new CommandError(
      EXIT.failed,
      unread > 0
        ? `The invoices of ${counted(unread, "customer")} could not be read.`
        : `${counted(spans, "span")} of usage ${spans === 1 ? "is" : "are"} not invoiced exactly once${rest}.`,
    );
  }
};

const RECONCILE_HELP = `
Compares what was delivered in the last 35 days, up to 15 minutes ago, with Stripe's own sums,
for each customer and meter, and stores what no event explains as differences (D17). Then it
compares the finalized invoices with what was delivered. It changes nothing at Stripe. A worker
does the same every night. A minute whose sum may lag, or that an event may explain, is no
difference yet.`;

export const addReconcileCommand: Define = (usage, cli) => {
  usage
    .command("reconcile")
    .description("Compare Stripe's usage, and its invoices, with what was delivered")
    .option(...ACCOUNT_OPTION)
    .addHelpText("after", RECONCILE_HELP)
    .action(async ({ org }) => {
      const { clock, connections, say } = cli;
      const db = await connections.database();
      const accountId = await readAccountFilter(db, org);
      const readBefore = await readDatabaseTime(db, clock);
      const deps = { ...(await cli.openBilling()), bulkDb: await connections.bulkDatabase() };
      if ((await readDeployment(db)).processor?.name === "stripe") {
        // A wrong key is not recorded as a comparison that failed.
        await requireProcessor(db, await connections.configured());
      }
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const compared = await reconcileUsage(deps, { accountId }, signal);
      const onFailure = (id: string, error: unknown): void =>
        say(`The invoices of ${id} could not be read: ${describeError(error)}`);
      const [invoices] = await Promise.allSettled([
        compareInvoices(deps, { accountId, readBefore, signal, onFailure }),
      ]);
      const problems = await listInvoicedUsage(db, accountId, { onlyProblems: true });
      const open = { state: "difference", accountId, limit: MAXIMUM_SHOWN } as const;
      print(cli, compared, problems, await listMeterEvents(db, open));
      requireEqualSums(compared);
      if (invoices.status === "rejected") {
        throw invoices.reason;
      }
      requireInvoiced(invoices.value.failed, problems);
      say("Nothing differs.");
    });
};
