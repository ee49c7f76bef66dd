import { reportPlanting } from "../../../services/planting/orders/reportPlanting.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printList } from "../../output/print.ts";
import { readReport } from "./readReport.ts";
import { wakeOrder } from "./wakeOrder.ts";

/** @param file a path, or `-` for standard input */
export const recordReport = async (
  context: CliContext,
  file: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const report = await readReport(io, file);
  const recorded = await reportPlanting(
    {
      ...(await openChange(context, operator)),
      wakeOrder: (orderId) => wakeOrder(context, orderId),
    },
    report,
    "operator",
  );
  printList({ io, json }, recorded, (fact) => fact, {
    stage: (fact) => fact.stage,
    outcome: (fact) => fact.outcome,
    reason: (fact) => fact.reason,
  });
  if (recorded.some(({ outcome }) => outcome === "contradiction")) {
    throw new CommandError(
      EXIT.failed,
      "Some facts contradict recorded ones. See `impact evidence order show`.",
    );
  }
  if (recorded.some(({ outcome }) => outcome === "withdrawn")) {
    throw new CommandError(
      EXIT.failed,
      "Some facts were withdrawn, and stay withdrawn. See `impact evidence reinstate`.",
    );
  }
};
