import type { Command } from "@commander-js/extra-typings";
import { listIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { plantingReport } from "../../modules/planting/fact.rules.ts";
import type { PlantingReport } from "../../modules/planting/fact.rules.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../modules/planting/withdrawPlantingFact.ts";
import { parseCount, parseReason } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { readText } from "../input/openInput.ts";
import { say } from "../io.ts";
import { openChange, operatorOption, withAudit } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { only, printDetails, printList, snakeCased } from "../output/print.ts";

const parseReport = (json: string): PlantingReport => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.usage, `The file is not valid JSON: ${describeError(error)}.`, {
      cause: error,
    });
  }
  const result = plantingReport.safeParse(value, { error: messageOfIssue });
  if (!result.success) {
    const lines = listIssues(result.error.issues, "field").map((line) => `\n  ${line}`);
    throw new CommandError(
      EXIT.usage,
      `Nothing was recorded, because the file is invalid:${lines.join("")}`,
    );
  }
  return result.data;
};

const RECORD_HELP = `
The file contains {"order": "<public id>", "facts": [{"stage": …, "occurred_at": …, …}, …]},
as docs/evidence.md describes. It is validated first, and recorded completely or not at
all. Facts that are already recorded change nothing, and withdrawn ones count again.
Contradictions are stored for you to inspect and change nothing either.`;

const addRecordCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("record")
      .description("Record facts of a planting order from a JSON file")
      .argument("<file>", "path of the file, or - for standard input"),
  )
    .addHelpText("after", RECORD_HELP)
    .action(async (file, operator) => {
      const { io } = context;
      const { order, facts } = parseReport(await readText(io, file));
      const deps = await openChange(context, operator);
      const recorded = await recordPlantingFacts(deps, order, facts, "operator");
      printList(io, recorded, only(recorded, ["stage", "outcome", "reason"]));
      if (recorded.some(({ outcome }) => outcome === "contradiction")) {
        throw new CommandError(
          EXIT.failed,
          "Some facts contradict recorded ones. See `impact evidence order show`.",
        );
      }
    });
};

const WITHDRAW_HELP = `
A withdrawn fact stays stored with its proof, the reason and the operator, but no longer
counts. Facts that need it wait for another one. Facts that contradicted it are decided
again, the latest report first: to replace a fact without a gap, record the right one
before you withdraw the wrong one. Evidence and the summary change with the next request.
To undo it, record the fact again; \`evidence order show --json\` prints its content.`;

const withdraw = async (
  context: CliContext,
  factId: number,
  options: ReasonedOptions,
): Promise<void> => {
  const { io } = context;
  const { changes, ...order } = await withdrawPlantingFact(
    await openChange(context, options),
    factId,
    options.reason,
  );
  printDetails(io, { ...snakeCased(order), changes });
  if (changes.length === 0) {
    say(io, `Fact ${factId} was already withdrawn.`);
  }
};

const addWithdrawCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("withdraw")
    .description("Withdraw a reported fact that is wrong")
    .argument("<fact>", "number of the fact, as impact evidence order show prints it", parseCount)
    .requiredOption("--reason <text>", "why the fact is wrong", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", WITHDRAW_HELP)
    .action((factId, options) => withdraw(context, factId, options));
};

export const addReportCommands = (evidence: Command, context: CliContext): void => {
  addRecordCommand(evidence, context);
  addWithdrawCommand(evidence, context);
};
