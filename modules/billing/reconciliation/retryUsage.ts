import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { decisionOf } from "../../accounts/audit.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { hasPeriodEnded } from "../billingPeriods.sql.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { requireFlowing } from "../deployment.rules.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { namedEvents, documentFor } from "../meterEvents.rules.ts";
import type { UsageItem } from "../meterEvents.rules.ts";
import { askAgain, findMeterEvent, sendAgain } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { applyAnswer, findTarget, lockMinute } from "./askProcessor.ts";
import { lockMeterEvent, getDifference } from "./getUsageItems.ts";
import { findObstacle, isAskedAbout, sumDelivered } from "./minutes.rules.ts";
import { listPossibleCustomers, listEventsOfSpan } from "./minutes.sql.ts";
import { decideRetry, requireCustomer } from "./retryUsage.rules.ts";
import type { OperatorAnswer, Retry } from "./retryUsage.rules.ts";
import { closeDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { isTooOldToSend } from "../sending/decideNextStep.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import type { BillingTarget } from "../usage.rules.ts";
import { DAY_MS, HOUR_MS } from "../../../runtime/durations.rules.ts";
import { invalidRequest, DomainError } from "../../../runtime/errors.rules.ts";

/** @throws DomainError request_invalid if the account has no customer */
const requireTarget = async (
  context: BillingContext,
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
): Promise<BillingTarget> => {
  const target = await findTarget(context, transaction, event);
  if (target.processor === "stripe" && target.customerId === null && event.quantity > 0) {
    throw invalidRequest(
      `the organization of ${namedEvents([event.id])} has no Stripe customer; set one with \`impact org update\`, and retry`,
    );
  }
  return target;
};

const listCustomers = async (
  transaction: DatabaseTransactionConnection,
  { accountId, customerId }: StoredMeterEvent,
): Promise<ReadonlySet<string>> => {
  const possible = await listPossibleCustomers(transaction, [accountId]);
  return new Set(
    [customerId, ...possible.map((each) => each.customerId)].filter((each) => each !== null),
  );
};

/**
 * Retries a failed meter event. What the processor refused is sent again, under an identifier that was never used. About what
 * it may have, a sender asks it first. An operator who has found that out can answer for it.
 * @returns what the retry does; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such event; request_invalid if a retry cannot settle it
 */
export const retryUsage = (
  context: BillingContext & OperatorContext,
  meterEventId: bigint,
  {
    answer = null,
    isDryRun = false,
  }: { readonly answer?: OperatorAnswer | null; readonly isDryRun?: boolean } = {},
): Promise<{ readonly event: StoredMeterEvent; readonly retry: Retry }> =>
  context.db.transaction(async (transaction) => {
    const { clock, actor } = context;
    const event = await lockMeterEvent(transaction, meterEventId);
    const usage =
      event.waitsFor === null ? null : await findMeterEvent(transaction, event.waitsFor);
    const retry = decideRetry(event, usage, answer);
    const target = retry === "send" ? await requireTarget(context, transaction, event) : null;
    const customerId =
      answer?.kind === "delivered"
        ? requireCustomer(event.id, await listCustomers(transaction, event), answer.customerId)
        : null;
    if (isDryRun) {
      return { event, retry };
    }
    const now = await readDatabaseTime(transaction, clock);
    if (retry === "record") {
      await applyAnswer(context, transaction, event, { kind: "delivered", customerId }, now);
    } else if (target !== null) {
      await sendAgain(transaction, event.id, target);
      await recordUsageEvent(transaction, event, "pending", now);
    } else {
      await askAgain(transaction, event.id);
      await recordUsageEvent(transaction, event, "pending", now);
    }
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: namedEvents([event.id]),
      details: { quantity: event.quantity, answer },
    });
    return { event, retry };
  });

/** Leaves the sender a day to send the units. */
const RESERVE_MS = DAY_MS;

const TIMEOUT_MS = 20_000;

/** After a period's end, Stripe still adds usage to its invoice for an hour, unless configured otherwise. */
const GRACE_MS = HOUR_MS;

/** @throws DomainError request_invalid if a document has to correct the units: an invoice of their period may be final */
const requireSendable = async (
  { db }: BillingContext,
  difference: UsageDifference,
  now: Date,
): Promise<void> => {
  const { id, second, units } = difference;
  const isTooOld = isTooOldToSend(second, new Date(now.getTime() + RESERVE_MS));
  if (isTooOld || (await hasPeriodEnded(db, difference, new Date(now.getTime() - GRACE_MS)))) {
    throw invalidRequest(
      `D${id} ${isTooOld ? "is older than Stripe corrects" : "is of a billing period that has ended"}: close it with ${documentFor(-units) === "credit_note" ? "--credit-note" : "--invoice-item"}`,
    );
  }
};

/**
 * Sends the units of a difference: takes back what the processor has too many, or sends what it lacks. The minute is compared
 * again before, because the difference may be gone.
 * @returns the difference; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such difference; request_invalid if it is closed, has changed, or may be
 *   usage that must be decided first, or usage is held
 * @throws ProcessorUnavailableError if Stripe is not configured or does not answer
 */
export const sendDifference = async (
  context: BillingContext & OperatorContext,
  id: bigint,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<UsageDifference> => {
  const { db, clock, billing, actor } = context;
  const difference = await getDifference(db, id);
  if (difference.state !== "open") {
    throw invalidRequest(`D${id} is ${difference.state}: there is nothing to retry`);
  }
  const stripe = requireStripe(billing);
  const minute = minuteOf(difference.second);
  await requireSendable(context, difference, await readDatabaseTime(db, clock));
  const { kind, customerId, units } = difference;
  const theirs = await stripe.sumUsage(customerId, kind, minute, AbortSignal.timeout(TIMEOUT_MS));
  await db.transaction(async (transaction) => {
    requireFlowing(await lockDeployment(transaction), "repeat the command when the hold has ended");
    const places = [{ stream: difference, accountIds: new Set([difference.accountId]) }];
    await lockMinute(transaction, places, minute);
    const events = await listEventsOfSpan(transaction, difference, minute);
    const now = await readDatabaseTime(transaction, clock);
    const obstacle = findObstacle(events, now);
    if (obstacle !== null) {
      throw invalidRequest(`D${id}: ${obstacle.reason}; repeat the command then`);
    }
    const asked = events.filter(isAskedAbout).map((event) => event.id);
    if (asked.length > 0) {
      throw invalidRequest(`D${id} may be ${namedEvents(asked)}: retry or close that first`);
    }
    if (theirs - sumDelivered(events) !== units) {
      throw invalidRequest(
        `the sums of D${id} have changed: it is ${theirs - sumDelivered(events)} units now; run \`impact usage reconcile\` again`,
      );
    }
    if (isDryRun) {
      return;
    }
    const decision = { isSent: true, ...decisionOf(actor), document: null, now };
    await closeDifference(transaction, difference, decision);
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: difference.accountId,
      subject: `D${id}`,
      details: { customerId, kind, units },
    });
  });
  return difference;
};

export type RetriedItem = UsageItem & { readonly units: number } & (
    | { readonly retry: Retry }
    /** Why a retry cannot settle it. */
    | { readonly refusal: DomainError }
  );

type RetryOptions = {
  /** What the operator has found out about the events; null if they are to be asked about. */
  readonly answer?: OperatorAnswer | null;
  readonly isDryRun: boolean;
};

/**
 * Retries items one after the other. What a retry cannot settle is left, with the reason.
 * @throws ProcessorUnavailableError if a difference is among them and Stripe is not configured or does not answer
 */
export async function* retryItems(
  context: BillingContext & OperatorContext,
  items: readonly UsageItem[],
  options: RetryOptions,
): AsyncGenerator<RetriedItem, void, void> {
  for (const { letter, id } of items) {
    try {
      if (letter === "E") {
        const { event, retry } = await retryUsage(context, id, options);
        yield { letter, id, units: event.quantity, retry };
      } else {
        const { units } = await sendDifference(context, id, options);
        yield { letter, id, units: -units, retry: "send" };
      }
    } catch (error) {
      if (!(error instanceof DomainError)) {
        throw error;
      }
      yield { letter, id, units: 0, refusal: error };
    }
  }
}
