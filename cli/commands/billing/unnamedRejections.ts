import type { UnnamedRejections } from "../../../db/billing/processorEvents/usageRejections.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";

export const presentUnnamedRejections = ({
  code,
  unnamed,
  windowStart,
  windowEnd,
}: UnnamedRejections) => ({
  code,
  events: unnamed,
  received_from: windowStart,
  received_to: windowEnd,
});

/** Prints late rejections of which the processor named only some events: the others are known only as drift. */
export const sayUnnamedRejections = (io: Io, rejections: readonly UnnamedRejections[]): void => {
  for (const { code, unnamed, windowStart, windowEnd } of rejections) {
    say(
      io,
      `Stripe rejected ${unnamed} events that it did not name (${code}), received from ${formatTime(windowStart)} to ${formatTime(windowEnd)}. Find them with: impact usage reconcile`,
    );
  }
};
