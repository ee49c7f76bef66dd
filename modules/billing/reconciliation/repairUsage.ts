import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { BillingContext } from "../context.ts";
import { describeHold } from "../deployment.rules.ts";
import { lockDeployment } from "../deployment.sql.ts";
import { nameOf, namesOf } from "../meterEvents.rules.ts";
import type { BillingDocument, StoredMeterEvent } from "../meterEvents.rules.ts";
import {
  askAgain,
  closeEvents,
  findMeterEvent,
  listMeterEventsById,
  lockMeterEvents,
} from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { sumSentRefunds } from "../registrationFacts.sql.ts";
import { lockStreams } from "../streams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { DomainError, invalidRequest } from "../../../runtime/errors.rules.ts";
import { applyAnswer, decideAbsent, lockMinute, readTheirs } from "./askProcessor.ts";
import { decideDifferences } from "./differences.sql.ts";
import { compareMinute } from "./minutes.rules.ts";
import type { Answer } from "./minutes.rules.ts";
import { listEventsOfSpan } from "./minutes.sql.ts";
import { decideRetry, isClosedAlready, requireDocument } from "./repairUsage.rules.ts";
import type { OperatorAnswer, Retry } from "./repairUsage.rules.ts";

const TIMEOUT_MS = 20_000;

export const usageNotFound = (ids: readonly bigint[]): DomainError =>
  new DomainError(
    "record_not_found",
    `${namesOf(ids.map((id) => ({ id })))} not found; see \`impact usage list\``,
  );

/** Locks events and their streams. @throws DomainError record_not_found if one of the events does not exist */
const lockUsage = async (transaction: DatabaseTransactionConnection, ids: readonly bigint[]) => {
  await lockStreams(transaction, await listMeterEventsById(transaction, ids));
  const events = await lockMeterEvents(transaction, ids);
  const missing = ids.filter((id) => !events.some((event) => event.id === id));
  if (missing.length > 0) {
    throw usageNotFound(missing);
  }
  return events;
};

/** Returns the usage that a refund waits for; null for other events. */
const findUsageOf = async (
  transaction: DatabaseTransactionConnection,
  { waitsFor }: StoredMeterEvent,
) => (waitsFor === null ? null : findMeterEvent(transaction, waitsFor));

/** Locks a difference's minute. @throws DomainError request_invalid if usage is held */
const lockDifference = async (
  transaction: DatabaseTransactionConnection,
  difference: StoredMeterEvent,
): Promise<void> => {
  const { hold } = await lockDeployment(transaction);
  if (hold) {
    throw invalidRequest(`${describeHold(hold)}; repeat the command when the hold has ended`);
  }
  const place = { ...difference, accountIds: [difference.accountId] };
  await lockMinute(transaction, [place], minuteOf(difference.second));
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
  const { obstacle, asked, units } = compareMinute(events, theirs, now);
  if (obstacle !== null) {
    throw invalidRequest(`${name}: ${obstacle.reason}; repeat the command then`);
  }
  if (asked.length > 0) {
    throw invalidRequest(`${name} may be ${namesOf(asked)}: retry or close that first`);
  }
  if (units !== -difference.quantity) {
    throw invalidRequest(
      `the sums of ${name} have changed: ${-units} units correct them now; run \`impact usage reconcile\` again`,
    );
  }
};

type RetryOptions = {
  /** What the operator has found out about the event; null if it is to be asked about. */
  readonly answer?: OperatorAnswer | null;
  readonly isDryRun?: boolean;
};

/**
 * Retries an event. What the processor refused is sent again, under an identifier that was never used. About what it may have, a
 * sender asks it first, unless an operator answers for it. A difference is sent after its minute was compared again.
 * @returns what the retry does, and with how many units; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such event; request_invalid if a retry cannot settle it, or, for a
 *   difference, if usage is held
 * @throws ProcessorUnavailableError for a difference, if Stripe is not configured or does not answer
 */
export const retryUsage = async (
  context: BillingContext & OperatorContext,
  id: bigint,
  { answer = null, isDryRun = false }: RetryOptions = {},
): Promise<{ readonly units: number; readonly retry: Retry }> => {
  const { db, clock, actor } = context;
  const found = await findMeterEvent(db, id);
  if (!found) {
    throw usageNotFound([id]);
  }
  const isDifference = found.failure === "difference";
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const theirs = isDifference
    ? await readTheirs(context, found, minuteOf(found.second), signal)
    : null;
  if (theirs !== null && typeof theirs !== "number") {
    throw invalidRequest(`${theirs.unreadable}, so ${nameOf(found)} cannot be sent: close it`);
  }
  return db.transaction(async (transaction) => {
    if (theirs !== null) {
      await lockDifference(transaction, found);
    }
    const [event = found] = await lockUsage(transaction, [id]);
    const { quantity: units, failure } = event;
    const decided = decideRetry(event, await findUsageOf(transaction, event), answer);
    const now = await readDatabaseTime(transaction, clock);
    if (failure === "difference") {
      await requireUnchanged(transaction, event, theirs ?? Number.NaN, now);
    }
    const absent = decided === "ask" ? null : await decideAbsent(context, transaction, event, now);
    const retry = decided === "send" && absent ? absent.retry : decided;
    const customerId = (retry === "record" ? event.customerId : null) ?? absent?.customerId ?? null;
    if (customerId === null && (retry === "record" || absent?.processor === "stripe")) {
      throw invalidRequest(
        `the organization of ${nameOf(event)} has no Stripe customer; set one with \`impact org update\`, and retry`,
      );
    }
    if (isDryRun) {
      return { units, retry };
    }
    if (retry === "ask") {
      await askAgain(transaction, id);
      await recordUsageEvent(transaction, event, "pending", now);
    } else {
      await decideDifferences(transaction, [id], now);
      const outcome: Answer =
        retry === "record" ? { kind: "delivered", customerId, units } : { kind: "absent" };
      await applyAnswer(context, transaction, event, outcome, now);
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

/** The result of a retry. The error says why it cannot settle the event. */
export type RetriedItem = {
  readonly id: bigint;
  readonly name: string;
  readonly units: number;
  readonly retry: Retry | DomainError;
};

/** Retries events, one after the other. What a retry cannot settle is left, with the reason. */
export const retryEach = async (
  context: BillingContext & OperatorContext,
  ids: readonly bigint[],
  options: RetryOptions = {},
): Promise<readonly RetriedItem[]> => {
  const retried: RetriedItem[] = [];
  for (const id of ids) {
    const name = nameOf((await findMeterEvent(context.db, id)) ?? { id });
    try {
      retried.push({ id, name, ...(await retryUsage(context, id, options)) });
    } catch (error) {
      if (!(error instanceof DomainError)) {
        throw error;
      }
      retried.push({ id, name, units: 0, retry: error });
    }
  }
  return retried;
};

/** @throws DomainError request_invalid if other usage depends on the event */
const requireIndependent = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  closed: readonly StoredMeterEvent[],
  document: BillingDocument | null,
): Promise<void> => {
  const usage = await findUsageOf(transaction, event);
  if (usage && usage.state !== "closed" && !closed.some((each) => each.id === usage.id)) {
    throw invalidRequest(
      `${nameOf(event)} is a refund that waits for its usage ${nameOf(usage)}: retry that, or close both`,
    );
  }
  const sentRefunds =
    document === null && event.state === "failed" ? await sumSentRefunds(transaction, event.id) : 0;
  if (sentRefunds > 0) {
    throw invalidRequest(
      `refunds of ${counted(sentRefunds, "unit")} of ${nameOf(event)} have been sent, or were offset against other usage, which they would reduce: retry it, or close it with an invoice item`,
    );
  }
};

/**
 * Closes failed and late usage and differences: a document at the processor bills or returns them, or they are never billed.
 * Nothing of it is sent. Refunds that wait for usage which is never billed are closed with it.
 * @param options.document with what the usage is billed or returned; null: it never is
 * @param options.expectedUnits what the document has; null if that is not to be checked
 * @returns the events as they were before, and their units
 * @throws DomainError record_not_found if there is no such event; request_invalid if one needs no decision, or another one
 *   first, or the document does not fit
 */
export const closeUsage = (
  { db, clock, actor }: OperatorContext,
  ids: readonly bigint[],
  {
    document,
    expectedUnits = null,
    isDryRun = false,
  }: {
    readonly document: BillingDocument | null;
    readonly expectedUnits?: number | null;
    readonly isDryRun?: boolean;
  },
): Promise<{ readonly events: readonly StoredMeterEvent[]; readonly units: number }> =>
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
