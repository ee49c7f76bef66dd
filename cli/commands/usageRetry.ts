import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { findHold } from "../../modules/billing/deployment.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { RETRIED_CAUSES, nameOf } from "../../modules/billing/meterEvents.rules.ts";
import { listOpenItems } from "../../modules/billing/meterEventReports.sql.ts";
import { retryItems } from "../../modules/billing/reconciliation/retryUsage.ts";
import type { RetriedItem } from "../../modules/billing/reconciliation/retryUsage.ts";
import type {
  OperatorAnswer,
  Retry,
} from "../../modules/billing/reconciliation/retryUsage.rules.ts";
import { collect, parseSearchText, parseStripeCustomer } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError, exitCodeOf } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printJson, printObjects } from "../output/print.ts";
import { sayHold } from "../output/printUsage.ts";
import { selectUsage, USAGE_NAME } from "../usageNames.ts";

/** @throws CommandError if something was refused; "not found" only if nothing was found */
const requireSuccess = (retried: readonly RetriedItem[]): void => {
  const codes = retried.flatMap((item) => ("refusal" in item ? exitCodeOf(item.refusal) : []));
  if (codes.length > 0) {
    throw new CommandError(
      codes.length === retried.length && codes.every((code) => code === EXIT.notFound)
        ? EXIT.notFound
        : EXIT.failed,
      `${codes.length} of ${retried.length} could not be retried.`,
    );
  }
};

type RetryOptions = ChangeOptions & {
  readonly all?: true;
  readonly delivered?: true;
  readonly absent?: true;
  readonly customer?: string;
  readonly dryRun?: true;
};

const answerOf = ({ delivered, absent, customer }: RetryOptions): OperatorAnswer | null =>
  delivered
    ? { kind: "delivered", customerId: customer ?? null }
    : absent
      ? { kind: "absent" }
      : null;

const EVENT_NAME = /^[Ee]\d+$/u;

const requireOneSelection = (names: readonly string[], options: RetryOptions): void => {
  const { all, customer, delivered } = options;
  if (names.length > 0 === (all === true)) {
    throw new CommandError(EXIT.usage, "Name what to retry, or pass --all.");
  }
  if (
    answerOf(options) !== null &&
    !(all !== true && names.every((name) => EVENT_NAME.test(name)))
  ) {
    throw new CommandError(
      EXIT.usage,
      "--delivered and --absent need the events whose outcome you have checked, such as E5.",
    );
  }
  if (customer !== undefined && delivered !== true) {
    throw new CommandError(EXIT.usage, "--customer requires --delivered.");
  }
};

const RETRIES: Readonly<Record<Retry, string>> = {
  send: "sent again",
  ask: "Stripe is asked first",
  record: "recorded as delivered",
};

/** Returns what a command has done, or would do, with an item. Units of a difference that Stripe has too many are negative. */
const present = (retried: RetriedItem) => {
  const item = nameOf(retried);
  if ("refusal" in retried) {
    return { item, units: null, result: "refused", reason: describeError(retried.refusal) };
  }
  const { letter, units } = retried;
  const result = letter === "D" && units < 0 ? "taken back" : RETRIES[retried.retry];
  return { item, units, result, reason: null };
};

const retry = async (
  context: CliContext,
  names: readonly string[],
  options: RetryOptions,
): Promise<void> => {
  requireOneSelection(names, options);
  const { io } = context;
  const deps = await openBillingChange(context, options);
  const isDryRun = options.dryRun === true;
  const items = await (options.all
    ? listOpenItems(deps.db, RETRIED_CAUSES)
    : selectUsage(deps.db, names, RETRIED_CAUSES));
  const results: RetriedItem[] = [];
  for await (const retried of retryItems(deps, items, {
    answer: answerOf(options),
    isDryRun,
  })) {
    results.push(retried);
  }
  const shown = results.map(present);
  if (io.json) {
    printJson(io, { dry_run: isDryRun, items: shown });
  } else if (shown.length > 0) {
    printObjects(io, shown);
  }
  if (results.length === 0) {
    say(io, "Nothing has failed; there is nothing to retry.");
  }
  if (isDryRun) {
    say(io, "Nothing was changed.");
  } else if (results.length > 0) {
    sayHold(io, findHold(await readDeployment(deps.db)));
  }
  requireSuccess(results);
};

const RETRY_HELP = `
Settles what needs no decision. Refused usage is sent again under a new identifier. About
usage that Stripe may have, Stripe is asked first: a worker compares the sums of its minute,
at once or when they can no longer lag, and sends what is missing. The units of a difference
are sent or taken back. An organization's name retries all of its open usage. Repeating the
command is safe.
--delivered and --absent answer for Stripe after you have looked there: a wrong "absent"
bills the usage twice, a wrong "delivered" never bills it.`;

export const addRetryCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("retry")
      .description("Retry failed usage and differences")
      .argument("[names...]", USAGE_NAME, collect(parseSearchText))
      .option("--all", "everything that is open")
      .addOption(new Option("--delivered", "Stripe has the events").conflicts("absent"))
      .option("--absent", "Stripe does not have the events")
      .option(
        "--customer <id>",
        "Stripe customer that has the usage, with --delivered",
        parseStripeCustomer,
      )
      .option("--dry-run", "show what would be done"),
  )
    .addHelpText("after", RETRY_HELP)
    .action((names, options) => retry(context, names ?? [], options));
};
