import { describeHold } from "../../../../domain/billing/deployment.ts";
import { holdUsage, releaseUsage } from "../../../../services/billing/holdUsage.ts";
import type { CliContext } from "../../../context.ts";
import { openChange, operatorName } from "../../../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../../../operator.ts";
import { printJson, printText } from "../../../output/print.ts";

export const holdAllUsage = async (
  context: CliContext,
  { reason, as, json }: ReasonedOptions,
): Promise<void> => {
  const { io } = context;
  const hold = await holdUsage(await openChange(context, { as, reason }), {
    reason,
    by: operatorName(as),
  });
  if (json) {
    printJson(io, { usage_held: hold });
    return;
  }
  printText(
    io,
    `Nothing is sealed or sent, because ${describeHold(hold)}. Calls that have begun end within 15 seconds.`,
  );
};

export const releaseAllUsage = async (
  context: CliContext,
  { as, reason, json }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const hold = await releaseUsage(await openChange(context, { as, reason }), operatorName(as));
  if (json) {
    printJson(io, { released_hold: hold });
    return;
  }
  printText(
    io,
    hold
      ? `Released the hold of ${hold.by} (${hold.reason}). The workers send usage within 30 seconds.`
      : "Usage was not held.",
  );
};
