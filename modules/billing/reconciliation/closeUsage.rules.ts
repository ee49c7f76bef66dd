import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { BillingDocument } from "../meterEvents.rules.ts";
import { documentFor, namedEvents } from "../meterEvents.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";

/** An event or a difference, as far as closing it depends on it. */
export type ClosableItem = {
  /** Such as `E5`. */
  readonly name: string;
  readonly accountId: string;
  readonly kind: Kind;
  /** What a document bills, or returns if negative. */
  readonly units: number;
  readonly state: string;
  /** Whether it needs a decision: it has failed, is late or differs. */
  readonly isOpen: boolean;
  /** The document that it was closed with, null for none; undefined if it was not closed. */
  readonly closedWith: string | null | undefined;
};

/**
 * Returns whether an item was closed with the same document before; null: it is never billed.
 * @throws DomainError request_invalid if there is nothing to close, or it was closed with another one
 */
export const isClosedAlready = (
  { name, state, isOpen, closedWith }: ClosableItem,
  document: BillingDocument | null,
): boolean => {
  if (closedWith === undefined && !isOpen) {
    throw invalidRequest(`${name} is ${state}: there is nothing to close`);
  }
  if (closedWith !== undefined && closedWith !== (document?.reference ?? null)) {
    throw invalidRequest(`${name} was closed with ${closedWith ?? "no document"}`);
  }
  return closedWith !== undefined;
};

/**
 * Checks that other usage does not depend on the event that is closed.
 * @param openUsageId the event of the usage that a refund takes back, while that is not closed, too; null otherwise
 * @param sentRefunds the units of its refunds that the processor has, or that were offset against other usage, if it is never billed
 * @throws DomainError request_invalid
 */
export const requireIndependent = (
  name: string,
  openUsageId: bigint | null,
  sentRefunds: number,
): void => {
  if (openUsageId !== null) {
    throw invalidRequest(
      `${name} is a refund that waits for its usage ${namedEvents([openUsageId])}: retry that, or close both`,
    );
  }
  if (sentRefunds > 0) {
    throw invalidRequest(
      `refunds of ${counted(sentRefunds, "unit")} of ${name} have been sent, or were offset against other usage, which they would reduce: retry it, or close it with an invoice item`,
    );
  }
};

/**
 * Checks that a document fits the items that it closes.
 * @param expectedUnits what the operator says that it has; null if that is not to be checked
 * @returns the units of all
 * @throws DomainError request_invalid
 */
export const requireDocument = (
  items: readonly ClosableItem[],
  document: BillingDocument | null,
  expectedUnits: number | null,
): number => {
  const units = items.reduce((sum, item) => sum + item.units, 0);
  if (document !== null && new Set(items.map(({ kind }) => kind)).size > 1) {
    throw invalidRequest(
      "the usage is of two meters, which have prices of their own: close that of each, with --meter",
    );
  }
  if (document !== null && new Set(items.map(({ accountId }) => accountId)).size > 1) {
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
