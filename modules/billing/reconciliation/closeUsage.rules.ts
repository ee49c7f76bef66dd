import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { BillingDocument, MeterEventState } from "../meterEvents.rules.ts";
import { documentFor, namedEvents } from "../meterEvents.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";

type ClosedEvent = {
  readonly id: bigint;
  readonly quantity: number;
  readonly state: MeterEventState;
  readonly isLate: boolean;
  readonly documentKind: BillingDocument["kind"] | "none" | null;
  readonly documentReference: string | null;
};

/** What closing an event depends on. */
type Circumstances = {
  /** The event of the usage that a refund takes back, while that is not decided and is not closed, too; null otherwise. */
  readonly openUsageId: bigint | null;
  /** The units of its refunds that the processor has, or that were offset against other usage. */
  readonly refundedUnits: number;
};

/**
 * Checks that an event may be closed.
 * @param document null: it is never billed
 * @returns whether it was closed with the same document before
 * @throws DomainError request_invalid
 */
export const isClosedAlready = (
  event: ClosedEvent,
  document: BillingDocument | null,
  { openUsageId, refundedUnits }: Circumstances,
): boolean => {
  const { id, state, isLate, documentKind, documentReference } = event;
  const name = namedEvents([id]);
  if (documentReference !== null) {
    if (documentReference === document?.reference) {
      return true;
    }
    throw invalidRequest(`${name} was closed with ${documentReference}`);
  }
  if ((state === "closed" || documentKind === "none") && document === null) {
    return true;
  }
  if (state !== "failed" && !isLate) {
    throw invalidRequest(`${name} is ${state}: there is nothing to close`);
  }
  if (openUsageId !== null) {
    throw invalidRequest(
      `${name} is a refund that waits for its usage ${namedEvents([openUsageId])}: retry that, or close both`,
    );
  }
  if (document === null && refundedUnits > 0 && state === "failed") {
    throw invalidRequest(
      `refunds of ${counted(refundedUnits, "unit")} of ${name} have been sent, or were offset against other usage, which they would reduce: retry it, or close it with an invoice item`,
    );
  }
  return false;
};

/**
 * Checks that a difference may be closed.
 * @param document null: it is accepted without one
 * @returns whether it was closed with the same document before
 * @throws DomainError request_invalid
 */
export const isDifferenceClosedAlready = (
  {
    id,
    state,
    documentReference,
  }: {
    readonly id: bigint;
    readonly state: "open" | "sent" | "accepted";
    readonly documentReference: string | null;
  },
  document: BillingDocument | null,
): boolean => {
  if (state === "sent") {
    throw invalidRequest(`D${id} is ${state}: there is nothing to close`);
  }
  if (state === "accepted" && documentReference !== (document?.reference ?? null)) {
    throw invalidRequest(`D${id} was closed with ${documentReference ?? "no document"}`);
  }
  return state === "accepted";
};

/**
 * Checks that a document fits the items that it closes, and their units.
 * @param expectedUnits what the operator says that it has; null if that is not to be checked
 * @throws DomainError request_invalid
 */
export const requireDocument = (
  items: readonly Pick<Owner, "accountId" | "kind">[],
  units: number,
  document: BillingDocument | null,
  expectedUnits: number | null,
): void => {
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
};
