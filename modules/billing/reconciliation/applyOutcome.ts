import type { DatabaseTransactionConnection } from "slonik";
import { findAccount } from "../../accounts/accounts.sql.ts";
import { hasReportableFacts, listMeterEventIdsOfEndedPeriods } from "../meterEventReports.sql.ts";
import { moveSettledEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { redispatchRefunds, releaseFacts, releaseHeldRefunds } from "../usageFacts.sql.ts";
import { DEFAULT_GRACE_MS } from "../meterEvents.rules.ts";
import type { Retried } from "./decideRetry.rules.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";

type Circumstances = {
  /** Which refunds are released that were held because of the event; see `releaseHeldRefunds`. Null: it had not failed. */
  readonly heldRefunds: Parameters<typeof releaseHeldRefunds>[2] | null;
  readonly now: Date;
};

/**
 * Does what follows from the next state of an event that was settled: clients receive an event, the dispatcher starts the
 * workflows of its refunds again, and refunds that were held because of it are released. Must run under the stream's lock,
 * and before the event's facts are released.
 */
export const followOutcome = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  state: Retried["state"],
  { heldRefunds, now }: Circumstances,
): Promise<void> => {
  // Asked only once the event has its next state: refunds in it are not of waived usage any more.
  if (event.state !== "waived" || (await hasReportableFacts(transaction, event.id))) {
    await recordUsageEvent(transaction, event, state, now);
  }
  await redispatchRefunds(transaction, event.id);
  if (heldRefunds !== null) {
    await releaseHeldRefunds(transaction, event.id, heldRefunds);
  }
};

/** Nothing is known of the periods of an earlier customer. */
const isOfEndedPeriod = async (
  transaction: DatabaseTransactionConnection,
  { id, accountId, customerId }: StoredMeterEvent,
  now: Date,
): Promise<boolean> => {
  const account = await findAccount(transaction, accountId);
  if (account?.stripeCustomerId !== customerId) {
    return false;
  }
  const ends = { now, graceMs: DEFAULT_GRACE_MS };
  return (await listMeterEventIdsOfEndedPeriods(transaction, [id], ends)).length > 0;
};

/**
 * Moves a settled event to what was decided about it. What the processor does not have of it is sealed again. Usage that it
 * has is late if the billing period had ended by `deliveredBy`, the latest time at which it can have been delivered, and its
 * customer is the organization's present one. Must run under the stream's lock.
 * @param outcome.customerId of the event if the processor has it; null: as before
 * @param circumstances.settledAt the time after which the event was not sent any more; the processor's sums may lag behind it
 */
export const applyOutcome = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  { state, acceptedQuantity, customerId }: Retried & { readonly customerId: string | null },
  {
    note,
    settledAt,
    deliveredBy,
    ...circumstances
  }: Circumstances & {
    readonly note: string | null;
    readonly settledAt: Date;
    readonly deliveredBy: Date;
  },
): Promise<void> => {
  const isLate =
    state === "delivered" &&
    (await isOfEndedPeriod(
      transaction,
      { ...event, customerId: customerId ?? event.customerId },
      deliveredBy,
    ));
  await moveSettledEvent(transaction, event.id, {
    state,
    note,
    isLate,
    acceptedQuantity,
    customerId: state === "delivered" ? customerId : null,
    settledAt,
  });
  await followOutcome(transaction, event, state, circumstances);
  if (state !== "delivered" || acceptedQuantity !== null) {
    await releaseFacts(transaction, event.id, acceptedQuantity ?? 0);
  }
};
