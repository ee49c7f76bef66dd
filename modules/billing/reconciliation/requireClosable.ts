import type { DatabaseTransactionConnection } from "slonik";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import { streamOfEvent } from "./reportedStreams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";

/**
 * Checks that an event may be closed without a check of the processor's sums. If it has failed since drift of its minute was
 * acknowledged, the drift may be its usage. Once it is closed, checks would count the acknowledged units as other usage of
 * the minute, which would never be billed. Must run under the stream's lock.
 * @throws DomainError request_invalid
 */
export const requireClosable = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
): Promise<void> => {
  const stream = streamOfEvent(event);
  const { failedSinceIds } = await readMinuteUsage(transaction, stream, minuteOf(event.second));
  if (failedSinceIds.includes(String(event.id))) {
    throw invalidRequest(
      `meter event ${event.id} counted as delivered when drift of its minute was acknowledged; run \`impact usage retry ${event.id}\`, which sends nothing that this drift explains; if it was billed by hand after that, pass \`--assume delivered\`, acknowledge the new difference, and if \`impact usage list --state late\` lists the event, record the document with \`impact usage settle\``,
    );
  }
};
