import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { atCustomer } from "./usageInDoubt.rules.ts";
import type { AttemptOutcome } from "../sending/decideNextStep.rules.ts";
import { isFailed } from "../meterEvents.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";

type FailedEvent = {
  readonly id: bigint;
  readonly state: MeterEventState;
  readonly outcomeUnknown: boolean;
};

/**
 * The next state of an event that is retried. `superseded`: its facts are sealed again. If the processor has only a part
 * of it, `acceptedQuantity`, the event is delivered with that quantity, and the rest is sealed again.
 */
export type Retried = {
  readonly state: "delivered" | "superseded";
  readonly acceptedQuantity: number | null;
};

const retried = (state: Retried["state"], acceptedQuantity: number | null = null): Retried => ({
  state,
  acceptedQuantity,
});

/** What an operator has found out about an event whose outcome is unknown. */
export const ASSUMED_OUTCOMES = ["delivered", "absent"] as const;
export type AssumedOutcome = (typeof ASSUMED_OUTCOMES)[number];

/**
 * Decides what retrying a failed or waived event leads to: its next state, or `check` if only the processor's sums can
 * show whether it was delivered.
 * @throws DomainError request_invalid if the event has not failed, or the assumption cannot be true
 */
export const decideRetry = (
  { id, state, outcomeUnknown }: FailedEvent,
  assumed: AssumedOutcome | null,
): Retried | "check" => {
  if (!isFailed(state) && state !== "waived") {
    throw invalidRequest(`meter event ${id} is ${state}: there is nothing to retry`);
  }
  if (!outcomeUnknown) {
    if (assumed === "delivered") {
      throw invalidRequest(`meter event ${id} is ${state}: the processor does not have it`);
    }
    return retried("superseded");
  }
  if (assumed === null) {
    return "check";
  }
  return retried(assumed === "delivered" ? "delivered" : "superseded");
};

/**
 * Decides the next state of a retried event from what the processor's sums show.
 * @param customerId the customer whose sum decides, if several were checked
 * @throws DomainError request_invalid if they do not show whether it was delivered
 */
export const decideRetryAfterCheck = (
  { id }: Pick<FailedEvent, "id">,
  checked: AttemptOutcome,
  customerId: string | null,
): Retried => {
  if (checked.kind === "delivered") {
    return retried("delivered");
  }
  if (checked.kind === "absent") {
    return retried("superseded");
  }
  if (checked.kind === "partial") {
    return retried("delivered", checked.acceptedQuantity);
  }
  throw invalidRequest(`meter event ${id}${atCustomer(customerId)}: ${checked.reason}`);
};

/**
 * Checks that an event may be reopened, before the processor's sums are read.
 * @throws DomainError request_invalid if it was not delivered
 */
export const requireDelivered = ({ id, state }: Pick<FailedEvent, "id" | "state">): void => {
  if (state !== "delivered") {
    throw invalidRequest(`meter event ${id} is ${state}: only delivered events can be reopened`);
  }
};

/**
 * Decides from the processor's sums of its minute whether a delivered event is sealed again: only if they lack all of it.
 * @param customerId the customer whose sum decides, if several were checked
 * @throws DomainError request_invalid unless the sums lack exactly this event
 */
export const decideReopenAfterCheck = (
  event: Pick<FailedEvent, "id">,
  checked: AttemptOutcome,
  customerId: string | null,
): "superseded" => {
  const { state, acceptedQuantity } = decideRetryAfterCheck(event, checked, customerId);
  if (state === "superseded") {
    return state;
  }
  const reason =
    acceptedQuantity === null
      ? "the processor has its usage, or what it lacks is acknowledged"
      : `the processor has ${counted(acceptedQuantity, "unit")} in that minute that no other event explains`;
  throw invalidRequest(`meter event ${event.id}${atCustomer(customerId)}: ${reason}`);
};
