import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listMeterEvents,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { USAGE_STATES, needsOperator } from "../../modules/billing/meterEvents.rules.ts";
import { findLastReconciliation } from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import { parseLimit } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printResult, sayIfMore } from "../output/print.ts";
import { presentAttention, printAttention, printEvents, sayHold } from "../output/printUsage.ts";
import { periodOption, spanOf } from "../timeRange.ts";
import { addExplainCommand } from "./usageExplain.ts";
import { addHoldCommand, addResumeCommand } from "./usageHold.ts";
import { addReconcileCommand } from "./usageReconcile.ts";
import { addCloseCommand, addRetryCommand } from "./usageRepairs.ts";

/** The exit code is 1 if a person is needed. */
const showOverview = async (
  { io, connections }: CliContext,
  { org }: { readonly org?: string },
): Promise<void> => {
  const db = await connections.database();
  const accountId = await readAccountFilter(db, org);
  const attention = await listUsageAttention(db, accountId);
  const { hold } = await readDeployment(db);
  const last = await findLastReconciliation(db);
  const error = last?.error ?? null;
  const needing = attention.filter(({ cause }) => needsOperator(cause));
  const matters = needing.length + (hold ? 1 : 0) + (error === null ? 0 : 1);
  const overview = {
    needs_person: matters > 0,
    attention: attention.map(presentAttention),
    usage_held: hold,
    last_reconciliation: last && {
      started_at: last.startedAt,
      ended_at: last.endedAt,
      compared: last.streams,
      error,
    },
  };
  printResult(io, overview, () => {
    printAttention(io, attention);
    if (last !== null && error !== null) {
      const at = formatTime(last.startedAt);
      say(io, `The comparison of ${at} failed: ${error}. Repeat it: impact usage reconcile`);
    }
    sayHold(io, hold);
  });
  if (matters > 0) {
    const what = counted(matters, "matter needs", "matters need");
    throw new CommandError(EXIT.failed, `${what} a person.`);
  }
  say(io, "Nothing needs a person.");
};

const LIST_HELP = `
States: pending usage is still sent or asked about; failed usage needs a person; closed
usage is never sent, by a decision or because a document bills it; late usage was
delivered and is on no invoice. A difference is what Stripe lacks of what was delivered, or
has in excess (with a minus sign), and what no event explains.`;

const addListCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("list")
    .description("List meter events (E5) and differences (D17), latest first")
    .addOption(new Option("--state <state>", "only items of this state").choices(USAGE_STATES))
    .addOption(accountOption())
    .addOption(periodOption())
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .addHelpText("after", LIST_HELP)
    .action(async ({ state, org, period, limit }) => {
      const db = await connections.database();
      const events = await listMeterEvents(db, {
        state: state ?? null,
        accountId: await readAccountFilter(db, org),
        span: spanOf(period),
        limit: limit + 1,
      });
      printEvents(io, events.slice(0, limit));
      sayIfMore(io, events.length, limit);
    });
};

const OVERVIEW_HELP = `
Without a command, impact usage shows what needs a person now, the oldest usage first, with
the next command; below it what settles by itself. The exit code is 1 if a person is
needed.`;

export const addUsageCommands = (usage: Command, context: CliContext): void => {
  usage
    .addOption(accountOption())
    .option("--json", "JSON output")
    .addHelpText("after", OVERVIEW_HELP)
    // Without this, an unknown command would be one argument too many.
    .allowExcessArguments()
    .action((options, { args: [unknown] }: Command) =>
      unknown === undefined
        ? showOverview(context, options)
        : usage.error(`error: unknown command '${unknown}'`),
    );
  addListCommand(usage, context);
  addExplainCommand(usage, context);
  addRetryCommand(usage, context);
  addCloseCommand(usage, context);
  addReconcileCommand(usage, context);
  addHoldCommand(usage, context);
  addResumeCommand(usage, context);
};
