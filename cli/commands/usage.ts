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
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { parseLimit } from "../arguments.ts";
import type { Cli, Define } from "../command.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { formatTime } from "../output/formatTable.ts";
import { presentAttention, printAttention, printEvents, sayHold } from "../output/printUsage.ts";
import { PERIOD, spanOf } from "../timeRange.ts";
import { addExplainCommand } from "./usageExplain.ts";
import { addHoldCommands } from "./usageHold.ts";
import { addReconcileCommand } from "./usageReconcile.ts";
import { addCloseCommand, addRetryCommand } from "./usageRepairs.ts";

/** The exit code is 1 if a person is needed. */
const showOverview = async (cli: Cli, { org }: { readonly org?: string }): Promise<void> => {
  const db = await cli.connections.database();
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
  cli.printResult(overview, () => {
    printAttention(cli, attention);
    if (last !== null && error !== null) {
      const at = formatTime(last.startedAt);
      cli.say(`The comparison of ${at} failed: ${error}. Repeat it: impact usage reconcile`);
    }
    sayHold(cli, hold);
  });
  if (matters > 0) {
    const what = counted(matters, "matter needs", "matters need");
    throw new CommandError(EXIT.failed, `${what} a person.`);
  }
  cli.say("Nothing needs a person.");
};

const LIST_HELP = `
States: pending usage is still sent or asked about; failed usage needs a person; closed
usage is never sent, by a decision or because a document bills it; late usage was
delivered and is on no invoice. A difference is what Stripe lacks of what was delivered, or
has in excess (with a minus sign), and what no event explains.

With --org, the latest usage comes first, otherwise what was sealed last.`;

const OVERVIEW_HELP = `
Without a command, impact usage shows what needs a person now, the oldest usage first, with
the next command; below it what settles by itself. The exit code is 1 if a person is
needed.`;

export const addUsageCommands: Define = (usage, cli) => {
  usage
    .option(...ACCOUNT_OPTION)
    .option("--json", "JSON output")
    .addHelpText("after", OVERVIEW_HELP)
    // Without this, an unknown command would be one argument too many.
    .allowExcessArguments()
    .action((options, { args: [unknown] }: Command) =>
      unknown === undefined
        ? showOverview(cli, options)
        : usage.error(`error: unknown command '${unknown}'`),
    );

  usage
    .command("list")
    .description("List meter events (E5) and differences (D17), latest first")
    .addOption(new Option("--state <state>", "only items of this state").choices(USAGE_STATES))
    .option(...ACCOUNT_OPTION)
    .option(...PERIOD)
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .addHelpText("after", LIST_HELP)
    .action(async ({ state = null, org, period, limit }) => {
      const db = await cli.connections.database();
      const accountId = await readAccountFilter(db, org);
      const filter = { state, accountId, span: spanOf(period), limit: limit + 1 };
      const events = await listMeterEvents(db, filter);
      printEvents(cli, events.slice(0, limit));
      cli.sayIfMore(events.length, limit);
    });

  addExplainCommand(usage, cli);
  addRetryCommand(usage, cli);
  addCloseCommand(usage, cli);
  addReconcileCommand(usage, cli);
  addHoldCommands(usage, cli);
};
