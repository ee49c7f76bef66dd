import type { UnnamedRejections } from "../../../db/billing/processorEvents/usageRejections.ts";
import { counted } from "../../../domain/counted.ts";
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
      `Stripe rejected ${counted(unnamed, "event")} that it did not name (${code}), received from ${formatTime(windowStart)} to ${formatTime(windowEnd)}. Find what is missing with: impact usage reconcile`,
    );
  }
};
