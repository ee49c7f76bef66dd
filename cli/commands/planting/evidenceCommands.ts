import type { Command } from "commander";
import { Option } from "commander";
import { ORDER_STAGES } from "../../../domain/planting/order.ts";
import { clearCachedResponses } from "../../../services/planting/clearCachedResponses.ts";
import type { CachedResponses } from "../../../services/planting/clearCachedResponses.ts";
import { parseId, parseLimit } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson } from "../../output/print.ts";
import { listEvidenceOrders, showEvidenceOrder } from "./orders.ts";
import type { ListOptions } from "./orders.ts";
import { recordEvidence } from "./record.ts";

const RECORD_HELP = `
The file holds {"order": "<public id>", "facts": [{"stage": …, "occurred_at": …, …}, …]},
as docs/evidence.md describes. All of it is checked first, and recorded whole or not at
all. What is on record already changes nothing; what contradicts it is kept for you to see.`;

type ClearOptions = {
  readonly tree?: string;
  readonly summary?: true;
  readonly all?: true;
  readonly json?: true;
};

const chosenAnswers = ({ tree, summary, all }: ClearOptions): CachedResponses => {
  if ([tree, summary, all].filter((option) => option !== undefined).length !== 1) {
    throw new CommandError(EXIT.usage, "Name one of --tree, --summary and --all.");
  }
  return tree === undefined
    ? { kind: all ? "all" : "summary" }
    : { kind: "tree", registrationId: tree };
};

const clearCache = async ({ io, connections }: Context, options: ClearOptions): Promise<void> => {
  const answers = chosenAnswers(options);
  const dropped = await clearCachedResponses({ db: await connections.database() }, answers);
  if (options.json) {
    printJson(io, { dropped });
  } else {
    io.stdout.write(`dropped ${dropped} ${dropped === 1 ? "answer" : "answers"}\n`);
  }
};

export const addEvidenceCommands = (program: Command, context: Context): void => {
  const evidence = program.command("evidence").description("planting orders and their proof");
  const order = evidence.command("order").description("orders with the planting partner");
  order
    .command("list")
    .description("list planting orders, latest first")
    .option("--org <id>", "only this organization's", parseId)
    .addOption(new Option("--stage <stage>", "only those at this stage").choices(ORDER_STAGES))
    .option("--contradicted", "only those with facts that contradict each other")
    .option("--limit <n>", "at most so many", parseLimit, 50)
    .option("--json", "print JSON")
    .action((options: ListOptions) => listEvidenceOrders(context, options));
  order
    .command("show")
    .description("show an order with all facts that were reported of it")
    .argument("<order>", "its number or its public id")
    .option("--json", "print JSON")
    .action((name: string, options: { readonly json?: true }) =>
      showEvidenceOrder(context, name, options),
    );
  evidence
    .command("record")
    .description("record milestones of an order from a JSON file")
    .argument("<file>", "the file, or - for standard input")
    .option("--json", "print JSON")
    .addHelpText("after", RECORD_HELP)
    .action((file: string, options: { readonly json?: true }) =>
      recordEvidence(context, file, options),
    );
  evidence
    .command("cache")
    .description("answers that are kept for 30 days")
    .command("clear")
    .description("drop kept answers, so that the next reader gets new ones")
    .option("--tree <id>", "that of this registration", parseId)
    .option("--summary", "the summary over all organizations")
    .option("--all", "all of them")
    .option("--json", "print JSON")
    .action((options: ClearOptions) => clearCache(context, options));
};
