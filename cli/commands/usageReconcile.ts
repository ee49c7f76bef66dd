import type { Command } from "@commander-js/extra-typings";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printObjects, snakeCased } from "../output/print.ts";
import { sinceOption, untilOption } from "../timeRange.ts";
import type { TimeRange } from "../timeRange.ts";
import type { BillingContext, BulkContext } from "../../modules/billing/context.ts";
import { requireProcessor } from "../../modules/billing/createBilling.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { compareInvoices } from "../../modules/billing/invoices/compareInvoices.ts";
import {
  describeInvoiceProblem,
  needingAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import type { InvoicedUsage } from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import { LONGEST_USAGE_LAG_MS } from "../../modules/billing/usage.rules.ts";
import { readDatabaseTime } from "../../modules/billing/readDatabaseTime.ts";
import {
  defaultSpan,
  reconcileUsage,
} from "../../modules/billing/reconciliation/reconcileUsage.ts";
import type {
  StreamReport,
  Reconciliation,
} from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { timeOf, minuteOf } from "../../modules/billing/usage.rules.ts";
import type { Span } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS, secondOf } from "../../runtime/durations.rules.ts";

const presentInvoiced = ({ start, end, ...usage }: InvoicedUsage) => ({
  ...snakeCased(usage),
  from: timeOf(start),
  to: timeOf(end),
  needs_attention: needingAttention([{ ...usage, start, end }]).length > 0,
});

/** Says which usage no invoice has, differs from it, or two have, and why. */
const sayInvoiceProblems = (io: Io, problems: readonly InvoicedUsage[]): void => {
  for (const usage of problems) {
    const { accountNames, customerId, start, end } = usage;
    say(
      io,
      `${accountNames}, ${customerId}, from ${formatTime(timeOf(start))} to ${formatTime(timeOf(end))}: ${describeInvoiceProblem(usage)}.`,
    );
  }
};

/** As long as a nightly comparison may take. */
const TIMEOUT_MS = 6 * HOUR_MS;

/** Compares the invoices of all customers (null), or of one organization's. Returns why some could not be read, or null. */
const compareWithInvoices = async (
  { io }: CliContext,
  deps: BillingContext & BulkContext,
  accountId: string | null,
): Promise<Error | null> => {
  try {
    const { failed } = await compareInvoices(deps, {
      accountId,
      readBefore: await readDatabaseTime(deps.db, deps.clock),
      signal: AbortSignal.timeout(TIMEOUT_MS),
      onFailure: (id, error) =>
        say(io, `The invoices of ${id} could not be read: ${describeError(error)}`),
    });
    const what = `The invoices of ${counted(failed, "customer")} could not be read.`;
    return failed === 0 ? null : new CommandError(EXIT.failed, what);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
};

type ReconcileOptions = TimeRange & { readonly org?: string };

const minuteStartOf = (time: Date): number => minuteOf(secondOf(time)).start;

const chooseSpan = (now: Date, { since, until }: ReconcileOptions): Span => {
  const usual = defaultSpan(now);
  const end = until === undefined ? usual.end : minuteStartOf(until);
  const start = since === undefined ? end - (usual.end - usual.start) : minuteStartOf(since);
  if (start >= end) {
    throw new CommandError(
      EXIT.usage,
      `--since must be before --until; got ${formatTime(timeOf(start))} and ${formatTime(timeOf(end))}.`,
    );
  }
  return { start, end };
};

const MAY_LAG = "may lag";

/** Why a minute that differs is no difference. */
const noteOf = ({ mayLag, askedIds }: StreamReport["differences"][number]): string | null =>
  mayLag
    ? MAY_LAG
    : askedIds.length > 0
      ? `may be ${askedIds.map((id) => `E${id}`).join(" ")}`
      : null;

/** JSON has the minutes of every stream. */
const SHOWN_MINUTES = 20;

/** Returns the minutes that differ. */
const listMinutes = ({ streams, openIds }: Reconciliation) =>
  streams.flatMap(({ accountName, kind, customerId, differences }) =>
    differences.map((difference) => ({
      item: openIds.has(difference) ? `D${openIds.get(difference)}` : null,
      organization: accountName,
      meter: kind,
      customer_id: customerId,
      minute: timeOf(minuteOf(difference.second).start),
      delivered: difference.ours,
      at_stripe: difference.theirs,
      note: noteOf(difference),
    })),
  );

const printComparison = (
  io: Io,
  streams: readonly StreamReport[],
  minutes: ReturnType<typeof listMinutes>,
): void => {
  printObjects(
    io,
    streams.map((stream) => ({
      organization: stream.accountName,
      meter: stream.kind,
      customer: stream.customerId,
      delivered: stream.delivered,
      at_stripe: stream.processorQuantity ?? "?",
    })),
  );
  if (minutes.length > 0) {
    io.stdout.write("\n");
    printObjects(
      io,
      minutes.slice(0, SHOWN_MINUTES).map(({ customer_id: _customer, ...minute }) => minute),
    );
  }
  if (minutes.length > SHOWN_MINUTES) {
    say(io, `To see all ${minutes.length} minutes, use --json.`);
  }
};

const reconcile = async (context: CliContext, options: ReconcileOptions): Promise<void> => {
  const { io, clock, connections } = context;
  if (options.until !== undefined) {
    // A span that does not depend on the time is checked before the database is needed.
    chooseSpan(clock.now(), options);
  }
  const db = await connections.database();
  const span = chooseSpan(await readDatabaseTime(db, clock), options);
  const accountId = await readAccountFilter(db, options.org);
  const isPartial = [options.org, options.since, options.until].some((each) => each !== undefined);
  const deps = { ...(await openBilling(context)), bulkDb: await connections.bulkDatabase() };
  if ((await readDeployment(db)).processor?.name === "stripe") {
    // A wrong key is not recorded as a comparison that failed.
    const account = await deps.billing.findStripeAccount();
    await requireProcessor(db, account === null ? { name: "ledger" } : { name: "stripe", account });
  }
  const compared = { accountId, span: isPartial ? span : null };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const reconciled = await reconcileUsage(deps, compared, signal);
  const { streams, drifting } = reconciled;
  const failure = await compareWithInvoices(context, deps, accountId);
  const uninvoiced = await listInvoicedUsage(db, accountId, { onlyProblems: true });
  const minutes = listMinutes(reconciled);
  if (io.json) {
    printJson(io, {
      from: timeOf(span.start),
      to: timeOf(span.end),
      streams: streams.map(({ differences: _differences, ...stream }) => snakeCased(stream)),
      minutes,
      invoice_problems: uninvoiced.map(presentInvoiced),
    });
  } else {
    printComparison(io, streams, minutes);
    sayInvoiceProblems(io, uninvoiced);
  }
  for (const { accountName, kind, customerId, error } of drifting) {
    if (error !== null) {
      say(io, `${accountName}, ${kind}, at ${customerId} could not be compared: ${error}`);
    }
  }
  say(io, `Compared from ${formatTime(timeOf(span.start))} to ${formatTime(timeOf(span.end))}.`);
  const lagging = minutes.filter(({ note }) => note === MAY_LAG).length;
  if (lagging > 0) {
    const completeAt = new Date(
      (await readDatabaseTime(db, clock)).getTime() + LONGEST_USAGE_LAG_MS,
    );
    say(
      io,
      `${counted(lagging, "minute")} may lag. Stripe's sums are complete after ${formatTime(completeAt)}; repeat the command then.`,
    );
  }
  if (drifting.length > 0) {
    const differing = drifting.filter(({ error }) => error === null).length;
    throw new CommandError(
      // "unreachable" only if there is no other problem.
      drifting.every(({ isErrorTemporary }) => isErrorTemporary) ? EXIT.unreachable : EXIT.failed,
      `Of ${counted(streams.length, "stream")}, ${differing} ${differing === 1 ? "differs" : "differ"} at Stripe, and ${drifting.length - differing} could not be compared. See impact usage.`,
    );
  }
  if (failure !== null) {
    throw failure;
  }
  const { length: spans } = needingAttention(uninvoiced);
  if (spans > 0) {
    throw new CommandError(
      EXIT.failed,
      `${counted(spans, "span")} of usage ${spans === 1 ? "is" : "are"} not invoiced exactly once.`,
    );
  }
};

const RECONCILE_HELP = `
Compares what was delivered with Stripe's own sums, for each customer and meter, and stores
what no event explains as differences (D17). Then it compares the finalized invoices with
what was delivered. It changes nothing at Stripe. A worker does the
same every night. Minutes marked "may lag" or "may be E5" are no differences yet.`;

export const addReconcileCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("reconcile")
    .description("Compare Stripe's usage, and its invoices, with what was delivered")
    .addOption(accountOption())
    .addOption(sinceOption("first minute (default: 35 days before the end)"))
    .addOption(untilOption("end, exclusive (default: 15 minutes ago)"))
    .addHelpText("after", RECONCILE_HELP)
    .action((options) => reconcile(context, options));
};
