import type { CommonQueryMethods } from "slonik";
import { listUnnamedRefusals } from "../../../db/billing/usageRefusals.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";

const SHOWN = 5;

/** Prints refusals of which the processor named only some events: the others are known only as drift. */
export const sayUnnamedRefusals = async (
  io: Io,
  db: CommonQueryMethods,
  after: Date,
): Promise<void> => {
  for (const { code, unnamed, windowStart, windowEnd } of await listUnnamedRefusals(
    db,
    after,
    SHOWN,
  )) {
    say(
      io,
      `Stripe refused ${unnamed} events that it did not name (${code}), received from ${formatTime(windowStart)} to ${formatTime(windowEnd)}. Find them with: impact usage reconcile`,
    );
  }
};
