import { counted } from "../../counted.ts";
import { invalidRequest } from "../../errors.ts";
import { atCustomer } from "./customersInDoubt.ts";
import type { AttemptOutcome } from "../decideNextStep.ts";
import type { MeterEventState } from "../meterEvents.ts";

type DeliveredEvent = { readonly id: bigint; readonly state: MeterEventState };

/**
 * Checks that an event may be reopened, before the processor's sums are read.
 * @throws DomainError request_invalid if it was not delivered
 */
export const requireDelivered = ({ id, state }: DeliveredEvent): void => {
  if (state !== "delivered") {
    throw invalidRequest(`meter event ${id} is ${state}: only delivered events can be reopened`);
  }
};

/**
 * Decides from the processor's sums of its minute whether a delivered event is sealed again.
 * @param customerId the customer whose sum decides, if several were checked
 * @throws DomainError request_invalid unless the sums lack exactly this event
 */
export const decideReopenAfterCheck = (
  { id }: DeliveredEvent,
  checked: AttemptOutcome,
  customerId: string | null,
): "superseded" => {
  if (checked.kind === "absent") {
    return "superseded";
  }
  const reason =
    "reason" in checked
      ? checked.reason
      : checked.kind === "partial"
        ? `the processor has ${counted(checked.acceptedQuantity, "unit")} in that minute that no other event explains`
        : "the processor has its usage, or what it lacks is acknowledged";
  throw invalidRequest(`meter event ${id}${atCustomer(customerId)}: ${reason}`);
};
