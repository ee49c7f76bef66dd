import { lockProcessorEvent, resolveFailedEvent } from "./processorEvents.sql.ts";
import { DomainError, invalidRequest } from "../../../runtime/errors.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";

const RESOLUTIONS = {
  retry: { state: "pending", action: "usage.retry" },
  discard: { state: "discarded", action: "usage.close" },
} as const;

/**
 * Has a failed event of the processor processed once more, or closes it. A repeated call changes nothing.
 * @returns false if the event is in that state already
 * @throws DomainError record_not_found if there is no such event; request_invalid if it has not failed
 */
export const resolveProcessorEvent = (
  { db, clock, actor }: OperatorContext,
  id: string,
  resolution: keyof typeof RESOLUTIONS,
): Promise<boolean> =>
  db.transaction(async (transaction) => {
    const { state, action } = RESOLUTIONS[resolution];
    const event = await lockProcessorEvent(transaction, id);
    if (!event) {
      throw new DomainError("record_not_found", `event ${id} not found; see \`impact usage\``);
    }
    if (event.state === state) {
      return false;
    }
    if (event.state !== "failed") {
      throw invalidRequest(
        `event ${id} is ${event.state}: only failed events are retried or discarded`,
      );
    }
    const now = clock.now();
    await resolveFailedEvent(transaction, id, state, now);
    await recordAction(transaction, actor, now, {
      action,
      subject: id,
      details: { type: event.type, error: event.lastError },
    });
    return true;
  });
