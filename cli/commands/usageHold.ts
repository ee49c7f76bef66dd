import { Option } from "commander";
import type { Command } from "commander";
import { describeHold } from "../../modules/billing/deployment.rules.ts";
import { holdUsage, resumeUsage } from "../../modules/billing/holdUsage.ts";
import type { ResumedUsage } from "../../modules/billing/holdUsage.ts";
import { LONGEST_USAGE_LAG_MS } from "../../modules/billing/processor.ts";
import { parseReason } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { openChange, operatorName, operatorOption, withAudit } from "../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printText } from "../output/print.ts";

export const addHoldCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("hold")
    .description("Hold all usage: nothing is sealed or sent")
    .requiredOption("--reason <text>", "reason, recorded with the hold", parseReason)
    .addOption(operatorOption())
    .action(async ({ reason, as, json }: ReasonedOptions) => {
      const { io } = context;
      const deps = await openChange(context, { as, reason });
      const hold = await holdUsage(deps, { reason, by: operatorName(as) });
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

type ResumeOptions = ChangeOptions & {
  readonly nothingWasLost?: true;
  readonly afterRestore?: true;
  readonly dryRun?: true;
};

const describeResumption = (
  { hold, doubtedUntil }: ResumedUsage,
  { isDryRun, wasNothingLost }: { readonly isDryRun: boolean; readonly wasNothingLost: boolean },
): string => {
  if (hold === null) {
    return "Usage is not held. What Stripe is asked about is listed by impact usage.";
  }
  const ended = `${isDryRun ? "Nothing was changed. The command would end" : "Ended"} the hold of ${hold.by} (${hold.reason})`;
  if (doubtedUntil === null) {
    return `${ended}. The workers send usage within 30 seconds${wasNothingLost ? ", and nothing is asked about" : ""}.`;
  }
  const asksFrom = new Date(doubtedUntil.getTime() + LONGEST_USAGE_LAG_MS);
  return [
    `${ended}. This database replaces the old one.`,
    `Stripe is asked about usage from before ${formatTime(doubtedUntil)} that is not known to be delivered, from ${formatTime(asksFrom)} on. What it lacks is sent. To see what is asked about, run: impact usage`,
    "After that, find what lost registrations and refunds have left at Stripe: impact usage reconcile",
  ].join("\n");
};

const resume = async (
  context: CliContext,
  { nothingWasLost, afterRestore, dryRun, as, reason, json }: ResumeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, { as, reason });
  const choice = {
    isDryRun: dryRun === true,
    wasNothingLost: nothingWasLost === true,
    isRestored: afterRestore === true,
  };
  const resumed = await resumeUsage(deps, { by: operatorName(as), ...choice });
  if (json) {
    printJson(io, {
      ended_hold: resumed.hold,
      doubted_until: resumed.doubtedUntil,
      dry_run: choice.isDryRun,
    });
  } else {
    printText(io, describeResumption(resumed, choice));
  }
};

const RESUME_HELP = `
After a restore, a promotion or a copy, this database replaces the old one from now on, and
Stripe is asked about usage that the lost history may have sent. Pass --nothing-was-lost only
if the old database cannot have sent anything that this one lacks, as after a planned
switchover. Pass --after-restore if a restore was not noticed, because the data folder was put
back in its place, or rows were.`;

export const addResumeCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("resume")
      .description("End a hold")
      .addOption(
        new Option(
          "--nothing-was-lost",
          "the old database has sent nothing that this one lacks",
        ).conflicts("afterRestore"),
      )
      .option("--after-restore", "a restore was not noticed")
      .option("--dry-run", "show what would be done"),
  )
    .addHelpText("after", RESUME_HELP)
    .action((options: ResumeOptions) => resume(context, options));
};
