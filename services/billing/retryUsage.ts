import type { DatabasePool } from "slonik";
import { sumOtherEvents } from "../../db/billing/meterEventReports.ts";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { findMeterEvent, lockStream, settleFailedEvent } from "../../db/billing/meterEvents.ts";
import { releaseFacts, releaseHeldRefunds } from "../../db/billing/usageFacts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { isFailed } from "../../domain/billing/usage.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { Delivery } from "./checkDelivery.ts";
import { checkDelivery, minuteOf } from "./checkDelivery.ts";

const ANSWER_WITHIN_MS = 20_000;

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

/** What a retry goes by; the version where the processor's record was asked, which holds for that state of the minute alone. */
type Known =
  | { readonly kind: "delivered" | "absent"; readonly othersVersion: string | null }
  | Exclude<Delivery, { readonly kind: "delivered" | "absent" }>;

/**
 * Whether a failed event was delivered after all. A definite refusal was not; anything else is up to a person's word or
 * the processor's record.
 */
const findDelivery = (
  { db, clock, billing }: Dependencies,
  event: StoredMeterEvent,
  known: "delivered" | "absent" | null,
): Known | Promise<Known> => {
  if (event.state !== "blocked" && !event.outcomeUnknown) {
    return known === "delivered"
      ? { kind: "unclear", reason: `it is ${event.state}: the processor does not have it` }
      : { kind: "absent", othersVersion: null };
  }
  if (known) {
    return { kind: known, othersVersion: null };
  }
  const processor = billing.findProcessor(event.processor, event.mode);
  return processor
    ? checkDelivery(processor, db, event, {
        now: clock.now(),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      })
    : { kind: "unclear", reason: `${event.processor} is not set up, so it cannot be asked` };
};

/** @throws DomainError request_invalid unless the event has failed; one that was waived may be retried after all */
const requireFailed = (event: StoredMeterEvent): void => {
  if (!isFailed(event.state) && event.state !== "waived") {
    throw new DomainError(
      "request_invalid",
      `meter event ${event.id} is ${event.state}: there is nothing to retry`,
    );
  }
};

/**
 * Gives the usage of a failed meter event another chance: its facts, and the refunds that were held because of it, make
 * a new event, so that no identifier ever stands for two sums. Usage that the processor turns out to have is not sent
 * again.
 * @param known what a person found out about an outcome that the processor's record leaves unclear
 * @returns `waiting` when the facts wait to be sent, `delivered` when the processor had the usage all along
 * @throws DomainError record_not_found for no such event, request_invalid when there is nothing to retry or nobody can
 * tell whether it was delivered
 */
export const retryUsage = async (
  deps: Dependencies,
  meterEventId: bigint,
  known: "delivered" | "absent" | null = null,
): Promise<"waiting" | "delivered"> => {
  const { db, clock } = deps;
  const event = await findMeterEvent(db, meterEventId);
  if (!event) {
    throw new DomainError("record_not_found", `there is no meter event ${meterEventId}`);
  }
  requireFailed(event);
  const delivery = await findDelivery(deps, event, known);
  if (delivery.kind === "unclear" || delivery.kind === "early") {
    throw new DomainError("request_invalid", `meter event ${meterEventId}: ${delivery.reason}`);
  }
  return db.transaction(async (transaction) => {
    await lockStream(transaction, event);
    const current = await findMeterEvent(transaction, meterEventId);
    const others = await sumOtherEvents(transaction, event, minuteOf(event.second));
    if (
      current?.state !== event.state ||
      current.attempts !== event.attempts ||
      (delivery.othersVersion ?? others.version) !== others.version
    ) {
      throw new DomainError(
        "request_invalid",
        `meter event ${meterEventId}: it or its minute has changed meanwhile; try again`,
      );
    }
    await settleFailedEvent(transaction, meterEventId, {
      state: delivery.kind === "delivered" ? "delivered" : "superseded",
      note: null,
      settledAt: clock.now(),
    });
    await releaseHeldRefunds(transaction, meterEventId);
    if (delivery.kind === "delivered") {
      return "delivered";
    }
    await releaseFacts(transaction, meterEventId);
    return "waiting";
  });
};
