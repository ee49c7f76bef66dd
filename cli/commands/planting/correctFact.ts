import type { CorrectedOrder } from "../../../services/planting/orders/withdrawPlantingFact.ts";
import {
  reinstatePlantingFact,
  withdrawPlantingFact,
} from "../../../services/planting/orders/withdrawPlantingFact.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { operatorName } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { printJson, printTable } from "../../output/print.ts";
import { readReport } from "./readReport.ts";
import { wakeOrder } from "./wakeOrder.ts";

type CorrectOptions = ReasonedOptions & {
  readonly dryRun?: true;
};
export type WithdrawOptions = CorrectOptions & { readonly replacement?: string };
export type ReinstateOptions = CorrectOptions;

const depsOf = async (context: CliContext, { as, reason }: CorrectOptions) => ({
  db: await context.connections.database(),
  clock: context.clock,
  actor: { kind: "operator", name: operatorName(as), reason } as const,
  wakeOrder: (orderId: number) => wakeOrder(context, orderId),
});

const present = ({ order, stageBefore, stageAfter, changes, replacement }: CorrectedOrder) => ({
  order,
  stage_before: stageBefore,
  stage_after: stageAfter,
  changes,
  replacement,
});

const show = (
  { io }: CliContext,
  corrected: CorrectedOrder,
  { dryRun, json }: CorrectOptions,
): void => {
  const { order, stageBefore, stageAfter, changes, replacement } = corrected;
  if (json) {
    printJson(io, present(corrected));
  } else {
    if (changes.length > 0) {
      printTable(
        io,
        ["fact", "stage", "before", "after"],
        changes.map(({ fact, stage, before, after }) => [String(fact), stage, before, after]),
      );
    }
    if (replacement.length > 0) {
      printTable(
        io,
        ["replacement", "outcome", "reason"],
        replacement.map(({ stage, outcome, reason }) => [stage, outcome, reason]),
      );
    }
  }
  const stages =
    stageBefore === stageAfter ? `is ${stageAfter}` : `was ${stageBefore} and is ${stageAfter}`;
  say(
    io,
    dryRun
      ? `Nothing was changed. Without --dry-run: order ${order} ${stages}.`
      : `Order ${order} ${stages}.`,
  );
  if (replacement.some(({ outcome }) => outcome === "contradiction" || outcome === "withdrawn")) {
    throw new CommandError(
      EXIT.failed,
      "Some facts of the replacement did not take effect. See `impact evidence order show`.",
    );
  }
};

export const withdrawFact = async (
  context: CliContext,
  factId: number,
  options: WithdrawOptions,
): Promise<void> => {
  const { reason, replacement, dryRun } = options;
  const report = replacement === undefined ? null : await readReport(context.io, replacement);
  const corrected = await withdrawPlantingFact(await depsOf(context, options), factId, {
    reason,
    replacement: report,
    isDryRun: dryRun === true,
  });
  if (corrected.changes.length === 0) {
    say(context.io, `Fact ${factId} was already withdrawn.`);
  }
  show(context, corrected, options);
};

export const reinstateFact = async (
  context: CliContext,
  factId: number,
  options: ReinstateOptions,
): Promise<void> => {
  const corrected = await reinstatePlantingFact(await depsOf(context, options), factId, {
    isDryRun: options.dryRun === true,
  });
  show(context, corrected, options);
  if (corrected.changes.some(({ fact, after }) => fact === factId && after === "contradiction")) {
    throw new CommandError(
      EXIT.failed,
      `Fact ${factId} did not take effect, because it contradicts recorded facts. See \`impact evidence order show\`; withdraw those that are wrong.`,
    );
  }
};
