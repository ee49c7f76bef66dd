import { Option } from "@commander-js/extra-typings";
import { describeHold } from "../../modules/billing/deployment.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { holdUsage, readRestoreProgress, resumeUsage } from "../../modules/billing/holdUsage.ts";
import type { RestoreProgress, ResumedUsage } from "../../modules/billing/holdUsage.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { parseReason } from "../arguments.ts";
import { OPERATOR, REASON } from "../command.ts";
import type { Define } from "../command.ts";
import { snakeCased } from "../output/print.ts";
import { formatTime } from "../output/formatTable.ts";

/** A step of the checklist. What comes later needs no command yet. */
type Step = { readonly state: "done" | "next" | "later"; readonly text: string };

/** Returns what a restore has left to do, in order. `resuming` is the command that ends the hold. */
const listSteps = (
  { noticedAt, isHeld, asked: { events, unsealedFacts }, sumsCompleteAt }: RestoreProgress,
  resuming: string,
): readonly Step[] => {
  const usage = `what was registered before ${formatTime(noticedAt)} and is not known to be delivered`;
  const isAsking = isHeld || events + unsealedFacts > 0;
  const complete = formatTime(sumsCompleteAt);
  const state = isAsking ? "later" : "next";
  return [
    isHeld
      ? {
          state: "next",
          text: `Create lost organizations and set lost Stripe customers (impact org update), then end the hold: ${resuming}`,
        }
      : { state: "done", text: "The hold was ended; this database replaces the old one." },
    isAsking
      ? {
          state: "later",
          text: `Stripe is asked about ${usage}, ${isHeld ? "" : "the last of it "}from ${complete} on: ${counted(events, "event")}, and ${counted(unsealedFacts, "fact")} in no event yet. What it lacks is sent.`,
        }
      : { state: "done", text: `Stripe was asked about ${usage}.` },
    {
      state,
      text: `Find what the lost registrations and refunds have left at Stripe, after ${complete}, and again while minutes are skipped: impact usage reconcile`,
    },
    { state, text: "Decide about what needs a person: impact usage" },
  ];
};

const describeResumption = (
  { hold, doubtedUntil, copy }: ResumedUsage,
  { dryRun, nothingWasLost }: { readonly dryRun?: true; readonly nothingWasLost?: true },
  isLedger: boolean,
): string => {
  if (hold === null) {
    return "Usage is not held.";
  }
  const ended = `${dryRun ? "Nothing was changed. The command would end" : "Ended"} the hold of ${hold.by} (${hold.reason})`;
  if (copy !== null) {
    return `${ended}. This database is now deployment ${copy.name}; ${copy.originalName} continues without it, and sends what was pending in live mode. Start this deployment's programs with their own settings, without the original's Stripe key. ${counted(copy.disabledEndpoints, "webhook endpoint was", "webhook endpoints were")} disabled, so that the original's clients receive nothing from here.`;
  }
  if (isLedger) {
    return `${ended}. The workers add usage to the built-in ledger within 30 seconds.`;
  }
  const unnoticed =
    dryRun && !nothingWasLost
      ? " If the database was restored, or copied on disk, pass --after-restore: otherwise usage is billed twice."
      : "";
  return doubtedUntil === null
    ? `${ended}. The workers send usage within 30 seconds${nothingWasLost ? ", and nothing is asked about" : ""}.${unnoticed}`
    : `${ended}. Stripe is asked about usage from before ${formatTime(doubtedUntil)} before that is sent.`;
};

const RESUME_HELP = `
After a restore, a promotion or a copy, this database replaces the old one from now on, and
Stripe is asked about usage that the lost history may have sent. Repeat the command to see
what is done, what waits until when, and the next step. Pass --nothing-was-lost only if the
old database cannot have sent anything that this one lacks, as after a planned switchover.
Pass --after-restore if a restore was not noticed, because the data folder was put back in its
place, or rows were.
Pass --as-copy for a copy that is used beside the original, such as a database for tests. It
gets an id, and so workflows and task queues of its own; the next worker records its processor,
which is never the original's live Stripe account; and all webhook endpoints are disabled. Run
it before you start any program with the copy.`;

export const addHoldCommands: Define = (usage, cli) => {
  usage
    .command("hold")
    .description("Hold all usage: nothing is sealed or sent")
    .requiredOption("--reason <text>", "reason, recorded with the hold", parseReason)
    .option(...OPERATOR)
    .action(async ({ reason, as }) => {
      const deps = await cli.openChange({ as, reason });
      const hold = await holdUsage(deps, { reason, by: deps.actor.name });
      cli.printResult({ usage_held: hold }, () =>
        cli.printText(
          `Nothing is sealed or sent, because ${describeHold(hold)}. What has begun ends within 15 seconds.`,
        ),
      );
    });

  usage
    .command("resume")
    .description("End a hold, and show what a restore has left to do")
    .addOption(
      new Option(
        "--nothing-was-lost",
        "the old database has sent nothing that this one lacks",
      ).conflicts("afterRestore"),
    )
    .option("--after-restore", "a restore was not noticed")
    .addOption(
      new Option("--as-copy", "the database is a copy that is used beside the original").conflicts([
        "nothingWasLost",
        "afterRestore",
      ]),
    )
    .option("--dry-run", "show what would be done")
    .option(...REASON)
    .option(...OPERATOR)
    .addHelpText("after", RESUME_HELP)
    .action(async (options) => {
      const { nothingWasLost, afterRestore, asCopy } = options;
      const isDryRun = options.dryRun === true;
      const deps = await cli.openChange(options);
      const history = nothingWasLost
        ? "nothing_lost"
        : afterRestore
          ? "restored"
          : asCopy
            ? "copy"
            : null;
      const resumed = await resumeUsage(deps, { history, isDryRun });
      const { hold, doubtedUntil, copy } = resumed;
      // A hold that an operator had set has nothing to do with an earlier restore.
      const progress =
        hold === null || doubtedUntil !== null ? await readRestoreProgress(deps) : null;
      const isLedger = (await readDeployment(deps.db)).processor?.name === "ledger";
      const resuming = `impact usage resume${afterRestore ? " --after-restore" : ""}`;
      const steps = progress === null ? [] : listSteps(progress, resuming);
      const result = {
        ended_hold: hold,
        doubted_until: doubtedUntil,
        dry_run: isDryRun,
        copy: copy && snakeCased(copy),
        steps,
      };
      cli.printResult(result, () => {
        cli.printText(describeResumption(resumed, options, isLedger));
        for (const { state, text } of steps) {
          cli.printText(`${`[${state}]`.padEnd(7)} ${text}`);
        }
      });
    });
};
