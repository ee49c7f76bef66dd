import { findEndOfPeriods } from "../billingPeriods.sql.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { requireFlowing } from "../deployment.rules.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { DEFAULT_GRACE_MS, documentFor, namedEvents } from "../meterEvents.rules.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { isTooOldToSend } from "../sending/decideNextStep.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { lockMinute } from "./askProcessor.ts";
import { getDifference } from "./getDifference.ts";
import { findObstacle, isAskedAbout, sumDelivered } from "./minutes.rules.ts";
import { listEventsOfSpan } from "./minutes.sql.ts";
import { closeDifference, insertDifferenceFacts } from "./usageDifferences.sql.ts";
import type { UsageDifference } from "./usageDifferences.sql.ts";

/** Leaves the sender a day to send the units. */
const RESERVE_MS = DAY_MS;

const TIMEOUT_MS = 20_000;

/** @throws DomainError request_invalid if a document has to correct the units: an invoice of their period may be final */
const requireSendable = async (
  { db }: BillingContext,
  { id, accountId, kind, second, units }: UsageDifference,
  now: Date,
): Promise<void> => {
  const ends = { now, graceMs: DEFAULT_GRACE_MS };
  const endedBefore = await findEndOfPeriods(db, { accountId, kind }, ends);
  const isTooOld = isTooOldToSend(
    { processor: "stripe", second },
    new Date(now.getTime() + RESERVE_MS),
  );
  if (isTooOld || (endedBefore !== null && second * 1000 < endedBefore.getTime())) {
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
  {
    reason,
    by,
    isDryRun,
  }: { readonly reason: string; readonly by: string; readonly isDryRun: boolean },
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
    const obstacle = findObstacle(events, stripe.usageLagMs, now);
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
    const decision = { isSent: true, reason, by, document: null, now };
    await closeDifference(transaction, id, decision);
    await insertDifferenceFacts(transaction, id, difference, decision);
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: difference.accountId,
      subject: `D${id}`,
      details: { customerId, kind, units },
    });
  });
  return difference;
};
