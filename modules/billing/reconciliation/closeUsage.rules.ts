import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { BillingDocument, Failure, MeterEventState } from "../meterEvents.rules.ts";
import { documentFor, nameOf } from "../meterEvents.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";

/** An event, as far as closing it depends on it. */
export type ClosableEvent = {
  readonly id: bigint;
  readonly accountId: string;
  readonly kind: Kind;
  /** What a document bills, or returns if negative. */
  readonly quantity: number;
  readonly state: MeterEventState;
  readonly failure: Failure | null;
  readonly isLate: boolean;
  readonly documentKind: BillingDocument["kind"] | "none" | null;
  readonly documentReference: string | null;
};

/**
 * Returns whether an event was closed with the same document before; null: it is never billed.
 * @throws DomainError request_invalid if there is nothing to close, or it was closed with another one
 */
export const isClosedAlready = (
  event: ClosableEvent,
  document: BillingDocument | null,
): boolean => {
  const { state, isLate, documentKind, documentReference } = event;
  const isClosed = state === "closed" || documentKind !== null;
  if (!isClosed && state !== "failed" && !isLate) {
    throw invalidRequest(`${nameOf(event)} is ${state}: there is nothing to close`);
  }
  if (isClosed && documentReference !== (document?.reference ?? null)) {
    throw invalidRequest(`${nameOf(event)} was closed with ${documentReference ?? "no document"}`);
  }
  return isClosed;
};

/**
 * Checks that a document fits the events that it closes.
 * @param expectedUnits what the operator says that it has; null if that is not to be checked
 * @returns the units of all
 * @throws DomainError request_invalid
 */
export const requireDocument = (
  events: readonly ClosableEvent[],
  document: BillingDocument | null,
  expectedUnits: number | null,
): number => {
  const units = events.reduce((sum, { quantity }) => sum + quantity, 0);
  if (document !== null && new Set(events.map(({ kind }) => kind)).size > 1) {
    throw invalidRequest(
      "the usage is of two meters, which have prices of their own: close that of each, with --meter",
    );
  }
  if (document !== null && new Set(events.map(({ accountId }) => accountId)).size > 1) {
    throw invalidRequest("a document is of one customer: close the usage of each");
  }
  if (expectedUnits !== null && expectedUnits !== units) {
    throw invalidRequest(`these are ${counted(units, "unit")}, not ${expectedUnits}`);
  }
  if (document !== null && units !== 0 && document.kind !== documentFor(units)) {
    throw invalidRequest(
      units > 0
        ? `these are ${counted(units, "unit")} to bill: name an invoice item, not a credit note`
        : `these are ${counted(-units, "unit")} to return: name a credit note, not an invoice item`,
    );
  }
  return units;
};
