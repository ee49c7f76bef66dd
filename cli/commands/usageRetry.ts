import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { RETRIED_CAUSES } from "../../modules/billing/meterEvents.rules.ts";
import { listOpenUsage } from "../../modules/billing/meterEventReports.sql.ts";
import { retryItem } from "../../modules/billing/reconciliation/retryUsage.ts";
import type { RetriedItem } from "../../modules/billing/reconciliation/retryUsage.ts";
import type {
  OperatorAnswer,
  Retry,
} from "../../modules/billing/reconciliation/retryUsage.rules.ts";
import { collect, parseSearchText } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, exitCodeOf } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printObjects, printResult } from "../output/print.ts";
import { sayHold } from "../output/printUsage.ts";
import { selectUsage, USAGE_NAME } from "../usageNames.ts";

/** @throws CommandError if something was refused; "not found" only if nothing was found */
const requireSuccess = (retried: readonly RetriedItem[]): void => {
  const codes = retried.flatMap(({ retry }) =>
    typeof retry === "string" ? [] : exitCodeOf(retry),
  );
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
  readonly dryRun?: true;
};

const EVENT_NAME = /^[Ee]\d+$/u;

/** Returns what the operator answers for Stripe; null if it is to be asked. */
const readAnswer = (
  names: readonly string[],
  { all, delivered, absent }: RetryOptions,
): OperatorAnswer | null => {
  if (names.length > 0 === (all === true)) {
    throw new CommandError(EXIT.usage, "Name what to retry, or pass --all.");
  }
  const answer = delivered ? "delivered" : absent ? "absent" : null;
  if (answer !== null && (all || !names.every((name) => EVENT_NAME.test(name)))) {
    throw new CommandError(
      EXIT.usage,
      "--delivered and --absent need the events whose outcome you have checked, such as E5.",
    );
  }
  return answer;
};

const RESULTS: Readonly<Record<Retry, string>> = {
  send: "sent again",
  ask: "Stripe is asked first",
  record: "recorded as delivered",
};

/** Returns what a command has done, or would do, with an event. Units that are negative are taken back. */
const present = ({ name, retry, units }: RetriedItem) =>
  typeof retry === "string"
    ? {
        item: name,
        units,
        result: retry === "send" && units < 0 ? "taken back" : RESULTS[retry],
        reason: null,
      }
    : { item: name, units: null, result: "refused", reason: retry.message };

const retry = async (
  context: CliContext,
  names: readonly string[],
  options: RetryOptions,
): Promise<void> => {
  const answer = readAnswer(names, options);
  const { io } = context;
  const deps = await openBillingChange(context, options);
  const isDryRun = options.dryRun === true;
  const ids = await (options.all
    ? listOpenUsage(deps.db, RETRIED_CAUSES)
    : selectUsage(deps.db, names, RETRIED_CAUSES));
  const retried: RetriedItem[] = [];
  for (const id of ids) {
    retried.push(await retryItem(deps, id, { answer, isDryRun }));
  }
  const shown = retried.map(present);
  printResult(io, { dry_run: isDryRun, items: shown }, () =>
    shown.length === 0
      ? say(io, "Nothing has failed; there is nothing to retry.")
      : printObjects(io, shown),
  );
  if (isDryRun) {
    say(io, "Nothing was changed.");
  } else if (retried.length > 0) {
    sayHold(io, (await readDeployment(deps.db)).hold);
  }
  requireSuccess(retried);
};

const RETRY_HELP = `
Settles what needs no decision. Refused usage is sent again under a new identifier. About
usage that Stripe may have, Stripe is asked first: a worker compares the sums of its minute,
at once or when they can no longer lag, and sends what is missing. The units of a difference
are sent or taken back. An organization's name retries all of its open usage. Repeating the
command is safe.
--delivered and --absent answer for Stripe after you have looked there: a wrong "absent"
bills the usage twice, a wrong "delivered" never bills it. What another customer of the
organization has becomes differences.`;

export const addRetryCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("retry")
      .description("Retry failed usage and differences")
      .argument("[names...]", USAGE_NAME, collect(parseSearchText))
      .option("--all", "everything that is open")
      .addOption(new Option("--delivered", "Stripe has the events").conflicts("absent"))
      .option("--absent", "Stripe does not have the events")
      .option("--dry-run", "show what would be done"),
  )
    .addHelpText("after", RETRY_HELP)
    .action((names, options) => retry(context, names ?? [], options));
};
