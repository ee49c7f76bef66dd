import { listMeterEventIdsOfEndedPeriods } from "../../../../db/billing/meterEventReports.ts";
import { counted } from "../../../../domain/counted.ts";
import { reopenUsage } from "../../../../services/billing/repair/reopenUsage.ts";
import type { Context } from "../../../context.ts";
import { say } from "../../../io.ts";
import { actorOf } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";

export type ReopenOptions = {
  readonly reason: string;
  readonly as?: string;
  readonly dryRun?: true;
  readonly json?: true;
};

/** @throws DomainError if the processor's sums do not show that it lost exactly this event */
export const reopenEvent = async (
  { io, connections, clock }: Context,
  meterEventId: bigint,
  { reason, as, dryRun, json }: ReopenOptions,
): Promise<void> => {
  const deps = {
    db: await connections.database(),
    clock,
    billing: await connections.billing(),
    actor: actorOf({ as, reason }),
  };
  const isDryRun = dryRun === true;
  const { quantity } = await reopenUsage(deps, meterEventId, {
    reason,
    isDryRun,
  });
  if (json) {
    printJson(io, {
      meter_event_id: Number(meterEventId),
      result: isDryRun ? "lost" : "waiting",
      quantity,
    });
  }
  const ended = await listMeterEventIdsOfEndedPeriods(deps.db, [meterEventId], {
    now: clock.now(),
    graceMs: 0,
  });
  if (ended.length > 0) {
    say(
      io,
      `The billing period of event ${meterEventId} has ended: its usage may not be on any invoice.`,
    );
  }
  say(
    io,
    isDryRun
      ? `The processor has lost event ${meterEventId}. Without --dry-run, its ${counted(quantity, "unit is", "units are")} sent again.`
      : `Reopened event ${meterEventId}. The worker will send its ${counted(quantity, "unit")} again.`,
  );
};
