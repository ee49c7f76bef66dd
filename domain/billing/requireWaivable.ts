import { counted } from "../counted.ts";
import { DomainError } from "../errors.ts";
import { isFailed } from "./meterEvents.ts";
import type { MeterEventState } from "./meterEvents.ts";

/**
 * Checks that the usage of a meter event may be closed without being sent. A processor that refused usage after it had
 * accepted it may have received refunds of it in between, or they were offset against other usage in a void event.
 * Without the usage they would reduce other usage.
 * @param refundedUnits the units of refunds of the event's usage that the processor has or may get, or that were offset
 * @throws DomainError request_invalid
 */
export const requireWaivable = (
  { id, state }: { readonly id: bigint; readonly state: MeterEventState },
  refundedUnits: number,
): void => {
  if (!isFailed(state)) {
    throw new DomainError(
      "request_invalid",
      `meter event ${id} is ${state}: there is nothing to waive`,
    );
  }
  if (refundedUnits > 0) {
    throw new DomainError(
      "request_invalid",
      `meter event ${id}: refunds of ${counted(refundedUnits, "unit")} of it have been sent to the processor or offset against other usage, which they would reduce; retry the event, or bill its usage by hand and settle it`,
    );
  }
};
