import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { describeHold } from "../../modules/billing/deployment.rules.ts";
import { holdUsage } from "../../modules/billing/holdUsage.ts";
import { readRestoreProgress } from "../../modules/billing/holdUsage.ts";
import type { RestoreProgress } from "../../modules/billing/holdUsage.ts";
import { resumeUsage } from "../../modules/billing/holdUsage.ts";
import type { ResumedUsage } from "../../modules/billing/holdUsage.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { parseReason } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { openChange, operatorName, operatorOption, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printText } from "../output/print.ts";

export const addHoldCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("hold")
    .description("Hold all usage: nothing is sealed or sent")
    .requiredOption("--reason <text>", "reason, recorded with the hold", parseReason)
    .addOption(operatorOption())
    .action(async ({ reason, as }) => {
      const { io } = context;
      const deps = await openChange(context, { as, reason });
      const hold = await holdUsage(deps, { reason, by: operatorName(as) });
      if (io.json) {
        printJson(io, { usage_held: hold });
        return;
      }
      printText(
        io,
        `Nothing is sealed or sent, because ${describeHold(hold)}. Calls that have begun end within 15 seconds.`,
      );
    });
};

/** A step of the checklist. What waits needs no command. */
type Step = { readonly state: "done" | "next" | "waits"; readonly text: string };

const step = (state: Step["state"], text: string): Step => ({ state, text });

const askingStep = ({ asked, isHeld, noticedAt, sumsCompleteAt }: RestoreProgress): Step => {
  const since = `what was registered before ${formatTime(noticedAt)} and is not known to be delivered`;
  const { events, unsealedFacts } = asked;
  if (isHeld) {
    return step("waits", `After that, Stripe is asked about ${since}.`);
  }
  return events + unsealedFacts === 0
    ? step("done", `Stripe was asked about ${since}.`)
    : step(
        "waits",
        `Stripe is asked about ${since}, from ${formatTime(sumsCompleteAt)} on: ${counted(events, "event")}, and ${counted(unsealedFacts, "fact")} in no event yet. What it lacks is sent.`,
      );
};

const comparisonStep = ({ asked, comparedAt, isHeld, sumsCompleteAt }: RestoreProgress): Step => {
  const isAsking = isHeld || asked.events + asked.unsealedFacts > 0;
  if (comparedAt !== null && !isAsking) {
    return step("done", `The sums were compared at ${formatTime(comparedAt)}.`);
  }
  return step(
    isAsking ? "waits" : "next",
    `Find what the lost registrations and refunds have left at Stripe, after ${isAsking ? "that, and after " : ""}${formatTime(sumsCompleteAt)}: impact usage reconcile`,
  );
};

/** Returns what a restore has left to do, in order. */
const listSteps = (progress: RestoreProgress): readonly Step[] => {
  const { noticedAt, isHeld, released, comparedAt, openItems } = progress;
  return [
    step("done", `The change of the database was noticed at ${formatTime(noticedAt)}.`),
    isHeld
      ? step(
          "next",
          "Create lost organizations and set lost Stripe customers (impact org update), then end the hold: impact usage resume",
        )
      : step(
          "done",
          `The hold was ended${released === null ? "" : ` at ${formatTime(released.at)} by ${released.by}`}; this database replaces the old one.`,
        ),
    askingStep(progress),
    comparisonStep(progress),
    comparedAt !== null && openItems === 0
      ? step("done", "No item needs a person.")
      : step(
          openItems > 0 ? "next" : "waits",
          `Decide about what needs a person, ${counted(openItems, "item")} now: impact usage`,
        ),
  ];
};

const MARKS: Readonly<Record<Step["state"], string>> = {
  done: "[done] ",
  next: "[next] ",
  waits: "[later]",
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
    return "Usage is not held.";
  }
  const ended = `${isDryRun ? "Nothing was changed. The command would end" : "Ended"} the hold of ${hold.by} (${hold.reason})`;
  if (doubtedUntil !== null) {
    return `${ended}. Stripe is asked about usage from before ${formatTime(doubtedUntil)} before that is sent.`;
  }
  return `${ended}. The workers send usage within 30 seconds${wasNothingLost ? ", and nothing is asked about" : ""}.`;
};

const resume = async (
  context: CliContext,
  { nothingWasLost, afterRestore, dryRun, as, reason }: ResumeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, { as, reason });
  const choice = {
    isDryRun: dryRun === true,
    wasNothingLost: nothingWasLost === true,
    isRestored: afterRestore === true,
  };
  const resumed = await resumeUsage(deps, { by: operatorName(as), ...choice });
  const { hold, doubtedUntil } = resumed;
  // A hold that an operator had set has nothing to do with an earlier restore.
  const progress = hold === null || doubtedUntil !== null ? await readRestoreProgress(deps) : null;
  const steps = progress === null ? [] : listSteps(progress);
  if (io.json) {
    printJson(io, {
      ended_hold: hold,
      doubted_until: doubtedUntil,
      dry_run: choice.isDryRun,
      steps,
    });
    return;
  }
  printText(io, describeResumption(resumed, choice));
  for (const { state, text } of steps) {
    printText(io, `${MARKS[state]} ${text}`);
  }
};

const RESUME_HELP = `
After a restore, a promotion or a copy, this database replaces the old one from now on, and
Stripe is asked about usage that the lost history may have sent. Repeat the command to see
what is done, what waits until when, and the next step. Pass --nothing-was-lost only if the
old database cannot have sent anything that this one lacks, as after a planned switchover.
Pass --after-restore if a restore was not noticed, because the data folder was put back in its
place, or rows were.`;

export const addResumeCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("resume")
      .description("End a hold, and show what a restore has left to do")
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
    .action((options) => resume(context, options));
};
