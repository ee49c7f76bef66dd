import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { decisionOf } from "../../accounts/audit.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { namedItems } from "../meterEvents.rules.ts";
import type { BillingDocument, UsageItem } from "../meterEvents.rules.ts";
import { closeEvents, findMeterEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { sumSentRefunds } from "../registrationFacts.sql.ts";
import { isClosedAlready, requireDocument, requireIndependent } from "./closeUsage.rules.ts";
import type { ClosableItem } from "./closeUsage.rules.ts";
import { closeDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";
import { lockItems } from "./getUsageItems.ts";

export type CloseOptions = {
  /** With what the usage is billed or returned at the processor; null: it never is. */
  readonly document: BillingDocument | null;
  /** What the document has; null if that is not to be checked. */
  readonly expectedUnits: number | null;
  readonly isDryRun: boolean;
};

type ClosedItem = ClosableItem & {
  readonly second: number;
  readonly customerId: string | null;
};

export type ClosedUsage = {
  readonly items: readonly ClosedItem[];
  /** What the document bills, or returns if negative. */
  readonly units: number;
};

const itemOfEvent = (event: StoredMeterEvent): ClosedItem => {
  const { state, documentKind, documentReference } = event;
  const isNeverBilled = state === "closed" || documentKind === "none";
  return {
    ...event,
    name: `E${event.id}`,
    units: event.quantity,
    isOpen: state === "failed" || event.isLate,
    closedWith: documentReference ?? (isNeverBilled ? null : undefined),
  };
};

const itemOfDifference = (difference: UsageDifference): ClosedItem => ({
  ...difference,
  name: `D${difference.id}`,
  units: -difference.units,
  isOpen: difference.state === "open",
  closedWith: difference.state === "accepted" ? difference.documentReference : undefined,
});

const requireClosable = async (
  transaction: DatabaseTransactionConnection,
  { id, waitsFor, state }: StoredMeterEvent,
  closed: readonly StoredMeterEvent[],
  document: BillingDocument | null,
): Promise<void> => {
  const usage = waitsFor === null ? null : await findMeterEvent(transaction, waitsFor);
  const isOpen =
    usage !== null && usage.state !== "closed" && !closed.some((each) => each.id === usage.id);
  requireIndependent(
    `E${id}`,
    isOpen ? usage.id : null,
    document === null && state === "failed" ? await sumSentRefunds(transaction, id) : 0,
  );
};

/**
 * Closes failed and late usage and differences: a document at the processor bills or returns them, or they are never billed.
 * Nothing of it is sent. A difference counts as delivered then, so that our sum equals the processor's. Refunds that wait for
 * usage which is never billed are closed with it.
 * @returns the closed items; those that were closed with the same document before are among them
 * @throws DomainError record_not_found if there is no such item; request_invalid if one needs no decision, or another one
 *   first, or the document does not fit
 */
export const closeUsage = (
  { db, clock, actor }: OperatorContext,
  named: readonly UsageItem[],
  { document, expectedUnits, isDryRun }: CloseOptions,
): Promise<ClosedUsage> =>
  db.transaction(async (transaction) => {
    const { events, differences } = await lockItems(transaction, named);
    const openEvents = events.filter((event) => !isClosedAlready(itemOfEvent(event), document));
    const openDifferences = differences.filter(
      (difference) => !isClosedAlready(itemOfDifference(difference), document),
    );
    for (const event of openEvents) {
      await requireClosable(transaction, event, events, document);
    }
    const items = [...events.map(itemOfEvent), ...differences.map(itemOfDifference)];
    const units = requireDocument(items, document, expectedUnits);
    if (isDryRun) {
      return { items, units };
    }
    const now = await readDatabaseTime(transaction, clock);
    const { by, reason } = decisionOf(actor);
    const note = [document?.reference ?? "never billed", reason ?? []].flat().join(": ");
    const openIds = openEvents.map(({ id }) => id);
    await closeEvents(transaction, openIds, { document, note, now });
    for (const difference of openDifferences) {
      const decision = { isSent: false, reason, by, document, now };
      await closeDifference(transaction, difference, decision);
    }
    for (const accountId of new Set(items.map((item) => item.accountId))) {
      await recordAction(transaction, actor, now, {
        action: "usage.close",
        accountId,
        subject: namedItems(named),
        details: { ...document, units },
      });
    }
    return { items, units };
  });
