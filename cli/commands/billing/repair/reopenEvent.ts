import { counted } from "../../../../domain/counted.ts";
import { reopenUsage } from "../../../../services/billing/repair/reopenUsage.ts";
import type { CliContext } from "../../../context.ts";
import { say } from "../../../io.ts";
import { openBillingChange } from "../../../operator.ts";
import type { ReasonedOptions } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";
import { sayIfHeld } from "../sayIfHeld.ts";
import { warnOfEndedPeriods } from "./warnOfEndedPeriods.ts";

export type ReopenOptions = ReasonedOptions & {
  readonly dryRun?: true;
};

/** @throws DomainError if the processor's sums do not show that it lost exactly this event */
export const reopenEvent = async (
  context: CliContext,
  meterEventId: bigint,
  { dryRun, json, ...operator }: ReopenOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openBillingChange(context, operator);
  const isDryRun = dryRun === true;
  const { quantity } = await reopenUsage(deps, meterEventId, {
    reason: operator.reason,
    isDryRun,
  });
  if (json) {
    printJson(io, {
      meter_event_id: Number(meterEventId),
      result: isDryRun ? "lost" : "waiting",
      quantity,
    });
  }
  await warnOfEndedPeriods(context, [meterEventId]);
  say(
    io,
    isDryRun ? `The processor has lost event ${meterEventId}.` : `Reopened event ${meterEventId}.`,
  );
  if (!(await sayIfHeld(io, deps.db))) {
    say(
      io,
      isDryRun
        ? `Without --dry-run, its ${counted(quantity, "unit is", "units are")} sent again.`
        : `The worker will send its ${counted(quantity, "unit")} again.`,
    );
  }
};
