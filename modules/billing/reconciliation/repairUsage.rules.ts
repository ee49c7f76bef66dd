import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { documentFor, nameOf } from "../meterEvents.rules.ts";
import type { BillingDocument, StoredMeterEvent } from "../meterEvents.rules.ts";

/** What an operator has found out about an event that is unclear. */
export type OperatorAnswer = "delivered" | "absent";

/**
 * What a retry does: it sends the event, lets it wait for its usage, asks the processor first, or records that it has it or
 * does not accept it any more.
 */
export type Retry = "send" | "wait" | "ask" | "record" | "too_old";

/**
 * Decides what retrying an event does.
 * @param usage that the event, a refund, waits for; null if it does not wait
 * @throws DomainError request_invalid if a retry cannot settle the event, with what can
 */
export const decideRetry = (
  event: StoredMeterEvent,
  usage: StoredMeterEvent | null,
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

/**
 * Returns whether an event was closed with the same document before; null: it is never billed.
 * @throws DomainError request_invalid if there is nothing to close, or it was closed with another one
 */
export const isClosedAlready = (event: StoredMeterEvent, document: BillingDocument | null) => {
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
  events: readonly StoredMeterEvent[],
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
