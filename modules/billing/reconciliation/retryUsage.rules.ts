import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { MeterEventState, Failure } from "../meterEvents.rules.ts";
import { nameOf } from "../meterEvents.rules.ts";

/** What an operator has found out about an event that is unclear. */
export type OperatorAnswer = "delivered" | "absent";

type FailedEvent = {
  readonly id: bigint;
  readonly state: MeterEventState;
  readonly failure: Failure | null;
  readonly mayBeDelivered: boolean;
};

/** The event of the usage that a refund takes back. */
type Usage = { readonly id: bigint; readonly documentReference: string | null };

/** What a retry does: it sends the event, asks the processor first, or records that the processor has it. */
export type Retry = "send" | "ask" | "record";

/**
 * Decides what retrying an event does.
 * @param usage of the refund that the event is; null if it does not wait for any
 * @throws DomainError request_invalid if a retry cannot settle the event, with what can
 */
export const decideRetry = (
  event: FailedEvent,
  usage: Usage | null,
  answer: OperatorAnswer | null,
): Retry => {
  const { state, failure, mayBeDelivered } = event;
  const name = nameOf(event);
  if (state !== "failed") {
    throw invalidRequest(`${name} is ${state}: there is nothing to retry`);
  }
  if (usage !== null) {
    throw invalidRequest(
      usage.documentReference === null
        ? `${name} is a refund that waits for its usage ${nameOf(usage)}: retry or close that`
        : `${name} is a refund of usage that ${usage.documentReference} bills: issue a credit note, and close it with that`,
    );
  }
  if (answer === "delivered") {
    if (!mayBeDelivered) {
      const why = failure === "difference" ? "is not sent yet" : "was refused";
      throw invalidRequest(`${name} ${why}: the processor does not have it`);
    }
    return "record";
  }
  if (mayBeDelivered && answer === null) {
    return "ask";
  }
  if (failure === "too_old") {
    throw invalidRequest(
      `${name} is older than the processor accepts: close it with an invoice item or a credit note`,
    );
  }
  return "send";
};
