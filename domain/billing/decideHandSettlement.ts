import { invalidRequest } from "../errors.ts";
import type { MeterEventState } from "./meterEvents.ts";
import { DELIVERED_LATE, isFailed } from "./meterEvents.ts";

export const SETTLEMENT_KINDS = ["invoice_item", "credit_note"] as const;

/** How an operator settled usage at the processor by hand, with the reference of the document there. */
export type HandSettlement = {
  readonly kind: (typeof SETTLEMENT_KINDS)[number];
  readonly reference: string;
};

type SettledEvent = {
  readonly id: bigint;
  readonly state: MeterEventState;
  readonly lastError: string | null;
  readonly settlementKind: HandSettlement["kind"] | null;
  readonly settlementReference: string | null;
};

/**
 * Decides the state of an event that was settled by hand: late usage stays delivered, other usage is never sent.
 * `settled`: it was settled with this reference before.
 * @throws DomainError request_invalid if it needs no settlement, or was settled with another reference
 */
export const decideHandSettlement = (
  event: SettledEvent,
  { kind, reference }: HandSettlement,
): "delivered" | "waived" | "settled" => {
  const { id, state, lastError, settlementKind, settlementReference } = event;
  if (settlementReference !== null) {
    if (settlementKind === kind && settlementReference === reference) {
      return "settled";
    }
    throw invalidRequest(
      `meter event ${id} was settled with another reference: ${settlementReference}`,
    );
  }
  if (state === "delivered" && lastError === DELIVERED_LATE) {
    return "delivered";
  }
  if (isFailed(state) || state === "held" || state === "waived") {
    return "waived";
  }
  throw invalidRequest(
    state === "superseded"
      ? `meter event ${id} is superseded: its facts were released; \`impact usage show\` lists where they are`
      : `meter event ${id} is ${state}: there is nothing to settle by hand`,
  );
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
