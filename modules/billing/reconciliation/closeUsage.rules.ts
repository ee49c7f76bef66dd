import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";
import { DELIVERED_LATE, isFailed } from "../meterEvents.rules.ts";

export const SETTLEMENT_KINDS = ["invoice_item", "credit_note"] as const;

/** How an operator settled usage at the processor by hand, with the reference of the document there. */
export type HandSettlement = {
  readonly kind: (typeof SETTLEMENT_KINDS)[number];
  readonly reference: string;
};

/** Returns the kind of document that bills units by hand, or returns them if they are negative. */
export const documentFor = (units: number): HandSettlement["kind"] =>
  units > 0 ? "invoice_item" : "credit_note";

type SettledEvent = {
  readonly id: bigint;
  readonly quantity: number;
  readonly state: MeterEventState;
  readonly lastError: string | null;
  readonly settlementKind: HandSettlement["kind"] | null;
  readonly settlementReference: string | null;
};

/**
 * Decides the state of an event that was settled by hand: late usage stays delivered, other usage is never sent.
 * `settled`: it was settled with this reference before.
 * @throws DomainError request_invalid if it needs no settlement or a document of the other kind, or was settled with another
 *   reference
 */
export const decideHandSettlement = (
  event: SettledEvent,
  { kind, reference }: HandSettlement,
): "delivered" | "waived" | "settled" => {
  const { id, quantity, state, lastError, settlementKind, settlementReference } = event;
  if (settlementReference !== null) {
    if (settlementKind === kind && settlementReference === reference) {
      return "settled";
    }
    throw invalidRequest(
      `meter event ${id} was settled with another reference: ${settlementReference}`,
    );
  }
  const isLate = state === "delivered" && lastError === DELIVERED_LATE;
  if (!isLate && !isFailed(state) && state !== "held" && state !== "waived") {
    throw invalidRequest(
      state === "superseded"
        ? `meter event ${id} is superseded: its facts were released; \`impact usage show\` lists where they are`
        : `meter event ${id} is ${state}: there is nothing to settle by hand`,
    );
  }
  if (kind !== documentFor(quantity)) {
    throw invalidRequest(
      `meter event ${id} has ${counted(quantity, "unit")} to ${quantity > 0 ? "bill; name an invoice item, not a credit note" : "return; name a credit note, not an invoice item"}`,
    );
  }
  return isLate ? "delivered" : "waived";
};

/**
 * Refuses to send usage again that was settled by hand: it would be billed twice.
 * @throws DomainError request_invalid
 */
export const requireNoHandSettlement = ({
  id,
  settlementReference,
}: Pick<SettledEvent, "id" | "settlementReference">): void => {
  if (settlementReference !== null) {
    throw invalidRequest(`meter event ${id} was settled by hand with ${settlementReference}`);
  }
};

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
