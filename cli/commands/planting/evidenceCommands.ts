import type { Command } from "commander";
import { Option } from "commander";
import { ORDER_STAGES } from "../../../domain/planting/order.ts";
import { parseCount, parseId, parseLimit, parseReason, parseRecordId } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { operatorOption, withAudit } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { recordOwnerOption } from "../../accountOptions.ts";
import type { JsonOption } from "../../output/print.ts";
import type { ClearOptions } from "./clearCache.ts";
import { clearCache } from "./clearCache.ts";
import type { ListOptions } from "./listOrders.ts";
import { listOrders } from "./listOrders.ts";
import type { ReinstateOptions, WithdrawOptions } from "./correctFact.ts";
import { reinstateFact, withdrawFact } from "./correctFact.ts";
import { recordReport } from "./recordReport.ts";
import { showOrder } from "./showOrder.ts";

const RECORD_HELP = `
The file contains {"order": "<public id>", "facts": [{"stage": …, "occurred_at": …, …}, …]},
as docs/evidence.md describes. It is validated first, and recorded completely or not at
all. Facts that are already recorded change nothing. Contradictions are stored for you to
inspect and change nothing either.`;

const WITHDRAW_HELP = `
A withdrawn fact stays stored with its proof, the reason and the operator, but no longer
counts. Facts that need it wait for another one. Facts that contradicted it are decided
again, the latest report first. Evidence and the summary change with the next request.`;

export const addEvidenceCommands = (evidence: Command, context: CliContext): void => {
  const order = evidence.command("order").description("Inspect planting orders");
  order
    .command("list")
    .description("List planting orders, newest first")
    .option("--org <id>", "id of the organization or store", parseId)
    .addOption(new Option("--stage <stage>", "stage of the orders").choices(ORDER_STAGES))
    .option("--contradicted", "only orders with contradictions")
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((options: ListOptions) => listOrders(context, options));
  order
    .command("show")
    .description("Show a planting order and its reported facts")
    .argument("<order>", "number or public id of the order, here or in evidence")
    .action((id: string, options: JsonOption) => showOrder(context, id, options));
  withAudit(
    evidence
      .command("record")
      .description("Record facts of a planting order from a JSON file")
      .argument("<file>", "path of the file, or - for standard input"),
  )
    .addHelpText("after", RECORD_HELP)
    .action((file: string, options: ChangeOptions) => recordReport(context, file, options));
  evidence
    .command("withdraw")
    .description("Withdraw a reported fact that is wrong, or replace it")
    .argument("<fact>", "number of the fact, as impact evidence order show prints it", parseCount)
    .requiredOption("--reason <text>", "why the fact is wrong", parseReason)
    .option("--replacement <file>", "facts to record instead, in the format of evidence record")
    .addOption(operatorOption())
    .option("--dry-run", "show what would change")
    .addHelpText("after", WITHDRAW_HELP)
    .action((fact: number, options: WithdrawOptions) => withdrawFact(context, fact, options));
  evidence
    .command("reinstate")
    .description("Undo the withdrawal of a fact")
    .argument("<fact>", "number of the fact", parseCount)
    .requiredOption("--reason <text>", "why the fact was right", parseReason)
    .addOption(operatorOption())
    .option("--dry-run", "show what would change")
    .action((fact: number, options: ReinstateOptions) => reinstateFact(context, fact, options));
  withAudit(
    evidence
      .command("cache")
      .description("Manage the cache of evidence responses")
      .command("clear")
      .description("Delete cached responses, so that the next requests render new ones")
      .option("--tree <id>", "id of a tree registration", parseRecordId)
      .addOption(recordOwnerOption())
      .option("--summary", "the evidence summary")
      .option("--all", "all cached responses"),
  ).action((options: ClearOptions) => clearCache(context, options));
};
