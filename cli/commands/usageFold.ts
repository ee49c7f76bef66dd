import type { Command } from "commander";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import { foldUsage } from "../../modules/billing/folding/foldUsage.ts";
import type { FoldedStream } from "../../modules/billing/folding/foldUsage.ts";
import { readAccountFilter } from "../accountOptions.ts";
import { parseId, parseTimestamp } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { actorOf, operatorOption, reasonOption } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { createProgressBar, yieldingNote } from "../output/createProgressBar.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printRows } from "../output/print.ts";

type FoldOptions = ChangeOptions & {
  readonly before: Date;
  readonly org?: string;
  readonly dryRun?: true;
};

const sumOf = (streams: readonly FoldedStream[], name: "facts" | "events" | "kept"): number =>
  streams.reduce((sum, stream) => sum + stream[name], 0);

const FOLD_HELP = `
Usage that was delivered, and whose billing period has ended for 36 days, is folded: its
usage facts and meter events are deleted, and their units are kept by hour and second.
Registrations, refunds, statements, reconciliations and what clients see do not change.
Usage that failed, was corrected, has a note, or was delivered late or less than 36 days
ago stays as it is.
Make a backup first. The command may be stopped at any time and repeated.`;

export const addFoldCommand = (usage: Command, { io, connections, clock }: CliContext): void => {
  usage
    .command("fold")
    .description("Fold settled usage of past billing periods into sums, to save space")
    .requiredOption("--before <time>", "usage of registrations before this time", parseTimestamp)
    .option("--org <id>", "id of the organization", parseId)
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--dry-run", "count only")
    .addHelpText("after", FOLD_HELP)
    .action(async ({ before, org, dryRun, json, ...operator }: FoldOptions) => {
      const db = await connections.database();
      const accountId = await readAccountFilter(db, org);
      const pace = await connections.pace();
      const bar = createProgressBar(io);
      const streams = await foldUsage(
        { db, clock, actor: actorOf(operator), pace },
        { before, accountId, isDryRun: dryRun === true },
        ({ streams: done, allStreams, facts }) =>
          bar.update(done / allStreams, `${grouped(facts)} usage facts${yieldingNote(pace)}`),
      ).finally(bar.clear);
      if (json) {
        printJson(
          io,
          streams.map((stream) => ({
            account_id: stream.accountId,
            account_name: stream.accountName,
            meter: stream.kind,
            before: stream.until,
            facts: stream.facts,
            meter_events: stream.events,
            units: Number(stream.units),
            kept_meter_events: stream.kept,
          })),
        );
      } else if (streams.length > 0) {
        printRows(io, streams, {
          organization: (stream) => stream.accountName,
          meter: (stream) => stream.kind,
          before: (stream) => stream.until,
          facts: (stream) => stream.facts,
          "meter events": (stream) => stream.events,
          units: (stream) => Number(stream.units),
          "kept meter events": (stream) => stream.kept,
        });
      }
      const folded = `${counted(sumOf(streams, "facts"), "usage fact")} and ${counted(sumOf(streams, "events"), "meter event")}`;
      const kept = counted(sumOf(streams, "kept"), "other meter event");
      say(
        io,
        dryRun
          ? `${folded} would be folded, and ${kept} would stay. Nothing was changed.`
          : `Folded ${folded}; ${kept} ${sumOf(streams, "kept") === 1 ? "stays" : "stay"}. The sums of statements and reconciliations are unchanged.`,
      );
      if (streams.some(({ until }) => until < before)) {
        say(
          io,
          `Where "before" is earlier than ${formatTime(before)}, later usage is kept: its billing period had not ended 36 days ago.`,
        );
      }
    });
};
