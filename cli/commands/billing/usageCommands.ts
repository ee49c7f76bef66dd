import type { Command } from "commander";
import { Option } from "commander";
import { parseId, parseInstant, parseLimit, parseReason } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import type { ListOptions } from "./listUsage.ts";
import { listUsage } from "./listUsage.ts";
import type { ReconcileOptions } from "./reconcile.ts";
import { reconcile } from "./reconcile.ts";
import type { RetryOptions } from "./retry.ts";
import { parseMeterEventId, parseRetryId, retry } from "./retry.ts";
import type { RetryId } from "./retry.ts";
import { showUsage } from "./showUsage.ts";
import type { WaiveOptions } from "./waive.ts";
import { waive } from "./waive.ts";

const RETRY_HELP = `
Usage that was definitely refused is sent again in a new event. Where nobody knows
whether an attempt got through, the processor's own record is asked first; if that
does not tell either, find out and say it with --assume: a wrong "absent" bills
twice, a wrong "delivered" never.`;

const WAIVE_HELP = `
Say so only of usage that the processor does not have and shall not get: it was
invoiced by hand, or can never be sent. What is refunded of it later is taken back
from nobody. A waived event can still be retried by its id.`;

export const addUsageCommands = (program: Command, context: Context): void => {
  const usage = program.command("usage").description("usage on its way to the billing processor");
  usage
    .command("list")
    .description("list meter events, latest first, and the usage that is in none yet")
    .addOption(
      new Option("--state <state>", "only these; late: sent after their billing period").choices([
        "pending",
        "sent",
        "failed",
        "waived",
        "late",
      ]),
    )
    .option("--org <id>", "only this organization's", parseId)
    .option("--limit <n>", "at most so many", parseLimit, 50)
    .option("--json", "print JSON")
    .action((options: ListOptions) => listUsage(context, options));
  usage
    .command("show")
    .description("show how far the usage of a registration has come")
    .argument("<registration-id>", "the registration", parseId)
    .option("--json", "print JSON")
    .action((id: string, options: { readonly json?: true }) => showUsage(context, id, options));
  usage
    .command("retry")
    .description("give failed meter events another chance")
    .argument(
      "[ids...]",
      "ids of failed meter events, or of registrations that are in one",
      (given: string, earlier: readonly RetryId[] | undefined) => [
        ...(earlier ?? []),
        parseRetryId(given),
      ],
    )
    .option("--org <id>", "all that failed of this organization", parseId)
    .option("--all", "all that failed of everybody")
    .addOption(
      new Option("--assume <outcome>", "what became of an attempt that nobody knows of").choices([
        "delivered",
        "absent",
      ]),
    )
    .option("--json", "print JSON")
    .addHelpText("after", RETRY_HELP)
    .action((ids: readonly RetryId[] | undefined, options: RetryOptions) =>
      retry(context, ids ?? [], options),
    );
  usage
    .command("waive")
    .description("close failed meter events for good")
    .argument(
      "<ids...>",
      "ids of failed meter events",
      (given: string, earlier: readonly bigint[] | undefined) => [
        ...(earlier ?? []),
        parseMeterEventId(given),
      ],
    )
    .requiredOption("--reason <text>", "why, kept with the events", parseReason)
    .option("--json", "print JSON")
    .addHelpText("after", WAIVE_HELP)
    .action((ids: readonly bigint[], options: WaiveOptions) => waive(context, ids, options));
  usage
    .command("reconcile")
    .description("compare the processor's usage with what was delivered to it; corrects nothing")
    .option("--org <id>", "only this organization's", parseId)
    .option("--from <instant>", "first minute; by default 35 days before the end", parseInstant)
    .option("--to <instant>", "end, exclusive; by default 15 minutes ago", parseInstant)
    .option("--json", "print JSON")
    .action((options: ReconcileOptions) => reconcile(context, options));
};
