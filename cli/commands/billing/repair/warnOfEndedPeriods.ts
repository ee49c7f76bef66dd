import { listMeterEventIdsOfEndedPeriods } from "../../../../db/billing/meterEventReports.ts";
import type { CliContext } from "../../../context.ts";
import { say } from "../../../io.ts";

/** Stripe accepts usage of a period that has ended, but a finalized invoice no longer changes. */
export const warnOfEndedPeriods = async (
  { io, connections, clock }: CliContext,
  meterEventIds: readonly bigint[],
): Promise<void> => {
  const db = await connections.database();
  const ends = { now: clock.now(), graceMs: 0 };
  for (const id of await listMeterEventIdsOfEndedPeriods(db, meterEventIds, ends)) {
    say(io, `The billing period of event ${id} has ended: its usage may not be on any invoice.`);
  }
};
