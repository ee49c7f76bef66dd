import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { hasPeriodEnded } from "../billingPeriods.sql.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { describeHold } from "../deployment.rules.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { documentFor, namesOf, nameOf } from "../meterEvents.rules.ts";
import { askAgain, findMeterEvent, sendAgain } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { applyAnswer, findTarget, lockMinute } from "./askProcessor.ts";
import { decideDifferences } from "./differences.sql.ts";
import { lockUsage, usageNotFound } from "./lockUsage.ts";
import { compareMinute } from "./minutes.rules.ts";
import { listEventsOfSpan } from "./minutes.sql.ts";
import { decideRetry } from "./retryUsage.rules.ts";
import type { OperatorAnswer, Retry } from "./retryUsage.rules.ts";
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

/** Leaves the sender a day to send the units. */
const RESERVE_MS = DAY_MS;

const TIMEOUT_MS = 20_000;

/** After a period's end, Stripe still adds usage to its invoice for an hour, unless configured otherwise. */
const GRACE_MS = HOUR_MS;

/** @throws DomainError request_invalid if a document has to correct the units: an invoice of their period may be final */
const requireSendable = async (
  { db }: BillingContext,
  difference: StoredMeterEvent,
  now: Date,
): Promise<void> => {
  const { second, quantity } = difference;
  const isTooOld = isTooOldToSend(second, new Date(now.getTime() + RESERVE_MS));
  if (isTooOld || (await hasPeriodEnded(db, difference, new Date(now.getTime() - GRACE_MS)))) {
    throw invalidRequest(
      `${nameOf(difference)} ${isTooOld ? "is older than Stripe corrects" : "is of a billing period that has ended"}: close it with ${documentFor(quantity) === "credit_note" ? "--credit-note" : "--invoice-item"}`,
    );
  }
};

/** Reads what the processor has of a difference's minute now; null for other events. */
const readTheirs = async (
  context: BillingContext,
  event: StoredMeterEvent,
): Promise<number | null> => {
  const { failure, customerId, kind, second } = event;
  if (failure !== "difference" || customerId === null) {
    return null;
  }
  const stripe = requireStripe(context.billing);
  await requireSendable(context, event, await readDatabaseTime(context.db, context.clock));
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return stripe.sumUsage(customerId, kind, minuteOf(second), signal);
};

/** @throws DomainError request_invalid if a difference is gone, or not certain any more. Must run under the lock of its minute */
const requireUnchanged = async (
  transaction: DatabaseTransactionConnection,
  difference: StoredMeterEvent,
  theirs: number,
  now: Date,
): Promise<void> => {
  const name = nameOf(difference);
  const events = await listEventsOfSpan(transaction, difference, minuteOf(difference.second));
  const { obstacle, askedIds, units } = compareMinute(events, theirs, now);
  if (obstacle !== null) {
    throw invalidRequest(`${name}: ${obstacle.reason}; repeat the command then`);
  }
  if (askedIds.length > 0) {
    const asked = namesOf(events.filter(({ id }) => askedIds.includes(id)));
    throw invalidRequest(`${name} may be ${asked}: retry or close that first`);
  }
  if (units !== -difference.quantity) {
    throw invalidRequest(
      `the sums of ${name} have changed: ${-units} units correct them now; run \`impact usage reconcile\` again`,
    );
  }
};

/**
 * Retries an event. What the processor refused is sent again, under an identifier that was never used. About what it may have, a
 * sender asks it first. An operator who has found that out can answer for it. An event that corrects a difference is sent, after
 * its minute was compared again.
 * @returns what the retry does; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such event; request_invalid if a retry cannot settle it, or, for a
 *   difference, if usage is held
 * @throws ProcessorUnavailableError for a difference, if Stripe is not configured or does not answer
 */
export const retryUsage = async (
  context: BillingContext & OperatorContext,
  id: bigint,
  { answer = null, isDryRun = false }: RetryOptions = {},
): Promise<Retried> => {
  const { db, clock, actor } = context;
  const found = await findMeterEvent(db, id);
  const theirs = found && (await readTheirs(context, found));
  return db.transaction(async (transaction) => {
    if (found && theirs !== null) {
      const { hold } = await lockDeployment(transaction);
      if (hold) {
        throw invalidRequest(`${describeHold(hold)}; repeat the command when the hold has ended`);
      }
      const place = { ...found, accountIds: [found.accountId] };
      await lockMinute(transaction, [place], minuteOf(found.second));
    }
    const [event] = await lockUsage(transaction, [id]);
    if (!event) {
      throw usageNotFound([id]);
    }
    const { quantity: units, waitsFor } = event;
    const isDifference = event.failure === "difference";
    const usage = waitsFor === null ? null : await findMeterEvent(transaction, waitsFor);
    const retry = decideRetry(event, usage, answer);
    const now = await readDatabaseTime(transaction, clock);
    if (isDifference) {
      await requireUnchanged(transaction, event, theirs ?? Number.NaN, now);
    }
    const target = retry === "ask" ? null : await findTarget(context, transaction, event);
    const customerId = (retry === "record" ? event.customerId : null) ?? target?.customerId ?? null;
    if (customerId === null && (retry === "record" || target?.processor === "stripe")) {
      throw invalidRequest(
        `the organization of ${nameOf(event)} has no Stripe customer; set one with \`impact org update\`, and retry`,
      );
    }
    if (isDryRun) {
      return { units, retry };
    }
    if (retry === "record") {
      await applyAnswer(context, transaction, event, { kind: "delivered", customerId }, now);
    } else {
      await decideDifferences(transaction, [id], now);
      await (target ? sendAgain(transaction, id, target) : askAgain(transaction, id));
      await recordUsageEvent(transaction, event, "pending", now);
    }
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: nameOf(event),
      details: { quantity: units, answer },
    });
    return { units, retry };
  });
};

export type RetriedItem = {
  readonly id: bigint;
  readonly name: string;
  readonly units: number;
  /** The error says why a retry cannot settle it. */
  readonly retry: Retry | DomainError;
};

/** Retries an event of many. What a retry cannot settle is left, with the reason. */
export const retryItem = async (
  context: BillingContext & OperatorContext,
  id: bigint,
  options: RetryOptions = {},
): Promise<RetriedItem> => {
  const name = nameOf((await findMeterEvent(context.db, id)) ?? { id });
  try {
    return { id, name, ...(await retryUsage(context, id, options)) };
  } catch (error) {
    if (!(error instanceof DomainError)) {
      throw error;
    }
    return { id, name, units: 0, retry: error };
  }
};
