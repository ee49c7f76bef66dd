import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { nameOf, namesOf } from "../meterEvents.rules.ts";
import type { BillingDocument } from "../meterEvents.rules.ts";
import { closeEvents, findMeterEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { sumSentRefunds } from "../registrationFacts.sql.ts";
import { isClosedAlready, requireDocument } from "./closeUsage.rules.ts";
import { decideDifferences } from "./differences.sql.ts";
import { lockUsage } from "./lockUsage.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";

export type CloseOptions = {
  /** With what the usage is billed or returned at the processor; null: it never is. */
  readonly document: BillingDocument | null;
  /** What the document has; null if that is not to be checked. */
  readonly expectedUnits: number | null;
  readonly isDryRun: boolean;
};

export type ClosedUsage = {
  /** As they were before. */
  readonly events: readonly StoredMeterEvent[];
  /** What the document bills, or returns if negative. */
  readonly units: number;
};

/** @throws DomainError request_invalid if other usage depends on the event */
const requireIndependent = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  closed: readonly StoredMeterEvent[],
  document: BillingDocument | null,
): Promise<void> => {
  const { id, waitsFor, state } = event;
  const usage = waitsFor === null ? null : await findMeterEvent(transaction, waitsFor);
  if (usage && usage.state !== "closed" && !closed.some((each) => each.id === usage.id)) {
    throw invalidRequest(
      `${nameOf(event)} is a refund that waits for its usage ${nameOf(usage)}: retry that, or close both`,
    );
  }
  const sentRefunds =
    document === null && state === "failed" ? await sumSentRefunds(transaction, id) : 0;
  if (sentRefunds > 0) {
    throw invalidRequest(
      `refunds of ${counted(sentRefunds, "unit")} of ${nameOf(event)} have been sent, or were offset against other usage, which they would reduce: retry it, or close it with an invoice item`,
    );
  }
};

/**
 * Closes failed and late usage and differences: a document at the processor bills or returns them, or they are never billed.
 * Nothing of it is sent. Refunds that wait for usage which is never billed are closed with it.
 * @returns the closed events; those that were closed with the same document before are among them
 * @throws DomainError record_not_found if there is no such event; request_invalid if one needs no decision, or another one
 *   first, or the document does not fit
 */
export const closeUsage = (
  { db, clock, actor }: OperatorContext,
  ids: readonly bigint[],
  { document, expectedUnits, isDryRun }: CloseOptions,
): Promise<ClosedUsage> =>
  db.transaction(async (transaction) => {
    const events = await lockUsage(transaction, ids);
    const open = events.filter((event) => !isClosedAlready(event, document));
    for (const event of open) {
      await requireIndependent(transaction, event, events, document);
    }
    const units = requireDocument(events, document, expectedUnits);
    if (isDryRun) {
      return { events, units };
    }
    const now = await readDatabaseTime(transaction, clock);
    const reason = actor?.kind === "operator" ? actor.reason : null;
    const note = [document?.reference ?? "never billed", reason ?? []].flat().join(": ");
    const openIds = open.map(({ id }) => id);
    await decideDifferences(transaction, openIds, now);
    await closeEvents(transaction, openIds, { document, note, now });
    for (const accountId of new Set(events.map((event) => event.accountId))) {
      await recordAction(transaction, actor, now, {
        action: "usage.close",
        accountId,
        subject: namesOf(events),
        details: { ...document, units },
      });
    }
    return { events, units };
  });
