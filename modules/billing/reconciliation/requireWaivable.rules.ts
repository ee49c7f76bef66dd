import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { isFailed } from "../meterEvents.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";

/**
 * Checks that the usage of a meter event may be closed without being sent: failed usage, or a refund of closed usage. A
 * processor that refused usage after it had accepted it may have received refunds of it in between, or they were offset
 * against other usage in a void event. Without the usage they would reduce other usage.
 * @param refunds `refundedUnits`: the units of refunds of the event's usage that the processor has or may get, or that were
 * offset; `isWaivableRefund`: whether the event has refunds of closed usage, and none of failed usage; `billedUnits`: its
 * refunded units that the processor has, because it has a part of their usage
 * @throws DomainError request_invalid
 */
export const requireWaivable = (
  { id, state }: { readonly id: bigint; readonly state: MeterEventState },
  {
    refundedUnits,
    isWaivableRefund,
    billedUnits,
  }: {
    readonly refundedUnits: number;
    readonly isWaivableRefund: boolean;
    readonly billedUnits: number;
  },
): void => {
  if (state === "held" && !isWaivableRefund) {
    throw invalidRequest(
      `meter event ${id} is a refund that a retry of its usage sends; retry, settle or waive that usage first`,
    );
  }
  if (state === "held" && billedUnits > 0) {
    throw invalidRequest(
      `meter event ${id} is a refund of usage of which the processor has a part, with ${counted(billedUnits, "unit")} of this refund; issue a credit note for them, and settle the event with it`,
    );
  }
  if (!isFailed(state) && state !== "held") {
    throw invalidRequest(`meter event ${id} is ${state}: there is nothing to waive`);
  }
  if (refundedUnits > 0) {
    throw invalidRequest(
      `meter event ${id}: refunds of ${counted(refundedUnits, "unit")} of it have been sent to the processor or offset against other usage, which they would reduce; retry the event, or bill its usage by hand and settle it`,
    );
  }
};
