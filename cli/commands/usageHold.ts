import type { Command } from "commander";
import { countLateMeterEvents } from "../../modules/billing/meterEventReports.sql.ts";
import { describeHold } from "../../modules/billing/deployment.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { holdUsage, releaseUsage } from "../../modules/billing/holdUsage.ts";
import {
  processorQuantityOf,
  settleAfterRestore,
} from "../../modules/billing/reconciliation/settleAfterRestore.ts";
import { parseReason } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import {
  openBillingChange,
  openChange,
  operatorName,
  operatorOption,
  withAudit,
} from "../operator.ts";
import type { ChangeOptions, OperatorOptions, ReasonedOptions } from "../operator.ts";
import { printJson, printRows, printText } from "../output/print.ts";
import { sinceOption } from "../timeRange.ts";
import { warnOfEndedPeriods } from "./usageResults.ts";

export const addHoldCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("hold")
    .description("Hold all usage: nothing is sealed or sent")
    .requiredOption("--reason <text>", "reason, recorded with the hold", parseReason)
    .addOption(operatorOption())
    .action(async ({ reason, as, json }: ReasonedOptions) => {
      const { io } = context;
      const hold = await holdUsage(await openChange(context, { as, reason }), {
        reason,
        by: operatorName(as),
      });
      if (json) {
        printJson(io, { usage_held: hold });
        return;
      }
      printText(
        io,
        `Nothing is sealed or sent, because ${describeHold(hold)}. Calls that have begun end within 15 seconds.`,
      );
    });
};

export const addReleaseCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("release")
      .description("End a hold, if no data was lost: workers send usage as before"),
  ).action(async ({ as, reason, json }: ChangeOptions) => {
    const { io } = context;
    const hold = await releaseUsage(await openChange(context, { as, reason }), operatorName(as));
    if (json) {
      printJson(io, { released_hold: hold });
      return;
    }
    printText(
      io,
      hold
        ? `Released the hold of ${hold.by} (${hold.reason}). The workers send usage within 30 seconds.`
        : "Usage was not held.",
    );
  });
};

type CompareAndReleaseOptions = Pick<OperatorOptions, "as"> & {
  readonly since?: Date;
  readonly dryRun?: true;
  readonly json?: true;
};

/** One call to the processor for each customer, kind and minute in doubt. */
const TIMEOUT_MS = HOUR_MS;

const COMPARE_AND_RELEASE_HELP = `
After a restore or an unplanned failover, all live usage from before the hold that is not
delivered is compared with the processor's sums of its minute. What the processor has
counts as delivered; the workers send the rest. The command needs 15 minutes of hold,
because the sums lag, and may be repeated. With --since, older usage is not compared and
is sent again: use it only if you know that none of that usage, or of its refunds, was
sent after the restored time.`;

export const addCompareAndReleaseCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("compare-and-release")
    .description("Settle the usage that a restore has put in doubt, and end the hold")
    .addOption(sinceOption("first second of the usage in doubt"))
    .addOption(operatorOption())
    .option("--dry-run", "compare only")
    .addHelpText("after", COMPARE_AND_RELEASE_HELP)
    .action(async ({ as, since, dryRun, json }: CompareAndReleaseOptions) => {
      const { io } = context;
      const settled = await settleAfterRestore(
        await openBillingChange(context, { as }),
        { operator: operatorName(as), since: since ?? null, isDryRun: dryRun === true },
        AbortSignal.timeout(TIMEOUT_MS),
      );
      if (json) {
        printJson(
          io,
          settled.map(({ event, outcome }) => ({
            // The events of a dry run do not stay.
            meter_event_id: dryRun ? null : Number(event.id),
            account_id: event.accountId,
            meter: event.kind,
            at: timeOf(event.second),
            quantity: event.quantity,
            processor_quantity: processorQuantityOf({ event, outcome }),
            result: outcome.kind,
            reason: "reason" in outcome ? outcome.reason : null,
          })),
        );
      } else if (settled.length > 0) {
        printRows(io, settled, {
          event: ({ event }) => (dryRun ? null : String(event.id)),
          account: ({ event }) => event.accountId,
          meter: ({ event }) => event.kind,
          at: ({ event }) => timeOf(event.second),
          quantity: ({ event }) => event.quantity,
          "at processor": processorQuantityOf,
          result: ({ outcome }) => outcome.kind,
          reason: ({ outcome }) => ("reason" in outcome ? outcome.reason : null),
        });
      }
      const unclear = settled.filter(({ outcome }) => outcome.kind === "unclear").length;
      if (dryRun) {
        say(
          io,
          `${counted(settled.length, "event is", "events are")} in doubt, and the processor's sums settle ${settled.length - unclear} of them. Nothing was changed; usage stays held.`,
        );
        return;
      }
      await warnOfEndedPeriods(
        context,
        settled.filter(({ outcome }) => outcome.kind !== "delivered").map(({ event }) => event.id),
      );
      const late = await countLateMeterEvents(await context.connections.database());
      if (late > 0) {
        say(
          io,
          `${counted(late, "delivered event")} may not be on any invoice; see \`impact usage list --state late\`.`,
        );
      }
      say(
        io,
        `Settled ${counted(settled.length - unclear, "event")} in doubt, and ended the hold. The workers send what the processor lacks.`,
      );
      if (unclear > 0) {
        throw new CommandError(
          EXIT.failed,
          `${counted(unclear, "event stays", "events stay")} blocked; see \`impact usage list --state failed\`.`,
        );
      }
    });
};
