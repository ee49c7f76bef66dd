import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { decisionOf } from "../../accounts/audit.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { namedItems } from "../meterEvents.rules.ts";
import type { BillingDocument, UsageItem } from "../meterEvents.rules.ts";
import { closeEvents, lockMeterEvents } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { sumSentRefunds } from "../registrationFacts.sql.ts";
import { lockStreams } from "../streams.sql.ts";
import { isClosedAlready, isDifferenceClosedAlready, requireDocument } from "./closeUsage.rules.ts";
import { closeDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";
import { getDifference, getMeterEvent, getMeterEvents } from "./getUsageItems.ts";

export type CloseOptions = {
  /** With what the usage is billed or returned at the processor; null: it never is. */
  readonly document: BillingDocument | null;
  /** What the document has; null if that is not to be checked. */
  readonly expectedUnits: number | null;
  readonly isDryRun: boolean;
};

export type ClosedUsage = {
  readonly events: readonly StoredMeterEvent[];
  readonly differences: readonly UsageDifference[];
  /** What the document bills, or returns if negative. */
  readonly units: number;
};

const idsOf = (items: readonly UsageItem[], letter: UsageItem["letter"]): readonly bigint[] =>
  items.filter((item) => item.letter === letter).map(({ id }) => id);

const requireClosable = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  closed: ReadonlySet<bigint>,
  document: BillingDocument | null,
): Promise<boolean> => {
  const usage = event.waitsFor === null ? null : await getMeterEvent(transaction, event.waitsFor);
  return isClosedAlready(event, document, {
    openUsageId:
      usage !== null && usage.state !== "closed" && !closed.has(usage.id) ? usage.id : null,
    refundedUnits:
      document === null && event.state === "failed"
        ? await sumSentRefunds(transaction, event.id)
        : 0,
  });
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
  items: readonly UsageItem[],
  { document, expectedUnits, isDryRun }: CloseOptions,
): Promise<ClosedUsage> =>
  db.transaction(async (transaction) => {
    const eventIds = idsOf(items, "E");
    const found = await getMeterEvents(transaction, eventIds);
    const differences = await Promise.all(
      idsOf(items, "D").map((id) => getDifference(transaction, id)),
    );
    const streams = [...found, ...differences.map((each) => ({ ...each, mode: "live" as const }))];
    await lockStreams(transaction, streams);
    const events = await lockMeterEvents(transaction, eventIds);
    const closed = new Set(eventIds);
    const open: StoredMeterEvent[] = [];
    for (const event of events) {
      if (!(await requireClosable(transaction, event, closed, document))) {
        open.push(event);
      }
    }
    const openDifferences = differences.filter(
      (difference) => !isDifferenceClosedAlready(difference, document),
    );
    const units =
      events.reduce((sum, { quantity }) => sum + quantity, 0) -
      differences.reduce((sum, each) => sum + each.units, 0);
    requireDocument([...events, ...differences], units, document, expectedUnits);
    if (isDryRun) {
      return { events, differences, units };
    }
    const now = await readDatabaseTime(transaction, clock);
    const { by, reason } = decisionOf(actor);
    const note = [document?.reference ?? "never billed", reason ?? []].flat().join(": ");
    const openIds = open.map(({ id }) => id);
    await closeEvents(transaction, openIds, { document, note, now });
    for (const difference of openDifferences) {
      const decision = { isSent: false, reason, by, document, now };
      await closeDifference(transaction, difference, decision);
    }
    for (const accountId of new Set(streams.map((each) => each.accountId))) {
      await recordAction(transaction, actor, now, {
        action: "usage.close",
        accountId,
        subject: namedItems(items),
        details: { ...document, units },
      });
    }
    return { events, differences, units };
  });
