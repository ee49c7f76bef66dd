import type { OperatorContext } from "../../accounts/context.ts";
import { decisionOf } from "../../accounts/audit.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { hasPeriodEnded } from "../billingPeriods.sql.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { describeHold } from "../deployment.rules.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { namedEvents, nameOf, documentFor } from "../meterEvents.rules.ts";
import type { UsageItem } from "../meterEvents.rules.ts";
import { askAgain, findMeterEvent, sendAgain } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { applyAnswer, findTarget, lockMinute } from "./askProcessor.ts";
import { getDifference, itemNotFound, lockItems } from "./getUsageItems.ts";
import { compareMinute } from "./minutes.rules.ts";
import { listEventsOfSpan } from "./minutes.sql.ts";
import { decideRetry } from "./retryUsage.rules.ts";
import type { OperatorAnswer, Retry } from "./retryUsage.rules.ts";
import { closeDifference } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { isTooOldToSend } from "../sending/decideNextStep.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { DAY_MS, HOUR_MS } from "../../../runtime/durations.rules.ts";
import { invalidRequest, DomainError } from "../../../runtime/errors.rules.ts";

type RetryOptions = {
  /** What the operator has found out about the event; null if it is to be asked about. */
  readonly answer?: OperatorAnswer | null;
  readonly isDryRun?: boolean;
};

/** What a retry does, and with how many units; negative ones are taken back. */
type Retried = { readonly units: number; readonly retry: Retry };

/**
 * Retries a failed meter event. What the processor refused is sent again, under an identifier that was never used. About what
 * it may have, a sender asks it first. An operator who has found that out can answer for it.
 */
const retryEvent = (
  context: BillingContext & OperatorContext,
  item: UsageItem,
  { answer = null, isDryRun = false }: RetryOptions,
): Promise<Retried> =>
  context.db.transaction(async (transaction) => {
    const { clock, actor } = context;
    const [event] = (await lockItems(transaction, [item])).events;
    if (!event) {
      throw itemNotFound([item]);
    }
    const { id, quantity: units, waitsFor } = event;
    const usage = waitsFor === null ? null : await findMeterEvent(transaction, waitsFor);
    const retry = decideRetry(event, usage, answer);
    const target = retry === "ask" ? null : await findTarget(context, transaction, event);
    const customerId = (retry === "record" ? event.customerId : null) ?? target?.customerId ?? null;
    if (customerId === null && (retry === "record" || target?.processor === "stripe")) {
      throw invalidRequest(
        `the organization of ${namedEvents([id])} has no Stripe customer; set one with \`impact org update\`, and retry`,
      );
    }
    if (isDryRun) {
      return { units, retry };
    }
    const now = await readDatabaseTime(transaction, clock);
    if (retry === "record") {
      await applyAnswer(context, transaction, event, { kind: "delivered", customerId }, now);
    } else {
      await (target ? sendAgain(transaction, id, target) : askAgain(transaction, id));
      await recordUsageEvent(transaction, event, "pending", now);
    }
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: namedEvents([id]),
      details: { quantity: units, answer },
    });
    return { units, retry };
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
 */
const retryDifference = async (
  context: BillingContext & OperatorContext,
  item: UsageItem,
  { isDryRun = false }: RetryOptions,
): Promise<Retried> => {
  const { db, clock, billing, actor } = context;
  const difference = await getDifference(db, item.id);
  const { state, kind, customerId, accountId, units } = difference;
  const name = nameOf(item);
  if (state !== "open") {
    throw invalidRequest(`${name} is ${state}: there is nothing to retry`);
  }
  const stripe = requireStripe(billing);
  const minute = minuteOf(difference.second);
  await requireSendable(context, difference, await readDatabaseTime(db, clock));
  const theirs = await stripe.sumUsage(customerId, kind, minute, AbortSignal.timeout(TIMEOUT_MS));
  await db.transaction(async (transaction) => {
    const { hold } = await lockDeployment(transaction);
    if (hold) {
      throw invalidRequest(`${describeHold(hold)}; repeat the command when the hold has ended`);
    }
    await lockMinute(transaction, [{ ...difference, accountIds: [accountId] }], minute);
    const events = await listEventsOfSpan(transaction, difference, minute);
    const now = await readDatabaseTime(transaction, clock);
    const compared = compareMinute(events, theirs, now);
    if (compared.obstacle !== null) {
      throw invalidRequest(`${name}: ${compared.obstacle.reason}; repeat the command then`);
    }
    if (compared.askedIds.length > 0) {
      throw invalidRequest(
        `${name} may be ${namedEvents(compared.askedIds)}: retry or close that first`,
      );
    }
    if (compared.units !== units) {
      throw invalidRequest(
        `the sums of ${name} have changed: it is ${compared.units} units now; run \`impact usage reconcile\` again`,
      );
    }
    if (!isDryRun) {
      const decision = { isSent: true, ...decisionOf(actor), document: null, now };
      await closeDifference(transaction, difference, decision);
      await recordAction(transaction, actor, now, {
        action: "usage.retry",
        accountId,
        subject: name,
        details: { customerId, kind, units },
      });
    }
  });
  return { units: -units, retry: "send" };
};

/**
 * Retries an event or a difference.
 * @returns what the retry does; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such item; request_invalid if a retry cannot settle it, or, for a
 *   difference, if usage is held
 * @throws ProcessorUnavailableError for a difference, if Stripe is not configured or does not answer
 */
export const retryUsage = (
  context: BillingContext & OperatorContext,
  item: UsageItem,
  options: RetryOptions = {},
): Promise<Retried> =>
  item.letter === "E"
    ? retryEvent(context, item, options)
    : retryDifference(context, item, options);

export type RetriedItem = UsageItem & {
  readonly units: number;
  /** The error says why a retry cannot settle it. */
  readonly retry: Retry | DomainError;
};

/** Retries an item of many. What a retry cannot settle is left, with the reason. */
export const retryItem = async (
  context: BillingContext & OperatorContext,
  item: UsageItem,
  options: RetryOptions = {},
): Promise<RetriedItem> => {
  try {
    return { ...item, ...(await retryUsage(context, item, options)) };
  } catch (error) {
    if (!(error instanceof DomainError)) {
      throw error;
    }
    return { ...item, units: 0, retry: error };
  }
};
