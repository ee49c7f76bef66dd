import type { CommonQueryMethods, DatabasePool, DatabaseTransactionConnection } from "slonik";
import { sumOtherEvents } from "../../../db/billing/meterEventReports.ts";
import { findAccount } from "../../../db/accounts/accounts.ts";
import { lockDeployment, readDeployment } from "../../../db/billing/deployment.ts";
import {
  doubtFailedEvents,
  findUnfinishedMeterEvent,
  insertMeterEvents,
  isAttemptInProgress,
  listBlockedEventsSettledAt,
  moveSettledEvent,
} from "../../../db/billing/meterEvents.ts";
import { lockStream } from "../../../db/billing/streams.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import {
  redispatchRefunds,
  releaseFacts,
  releaseHeldRefunds,
  sumFactsBySign,
} from "../../../db/billing/usageFacts.ts";
import { listOldestUnsealedFacts } from "../../../db/billing/sending/unsealedFacts.ts";
import { listWaitingStreams } from "../../../db/billing/sending/waitingStreams.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import { allotShares } from "../../../domain/billing/compareUsage.ts";
import type { Hold } from "../../../domain/billing/deployment.ts";
import { isHoldMissing } from "../../../domain/billing/deployment.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { minuteOf, secondOf } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import { counted } from "../../../domain/counted.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import {
  LONGEST_USAGE_LAG_MS,
  UsageUnreadableError,
} from "../../../providers/billing/processor.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { currentTarget } from "../currentTarget.ts";
import { endHold, guardUsage } from "../holdUsage.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { runAndRollBack } from "../../runAndRollBack.ts";
import { runConcurrently } from "../../runConcurrently.ts";
import { lockUnchangedEvents } from "../repair/getMeterEvent.ts";
import { leaseOf } from "../sending/attemptLease.ts";
import { CONCURRENT_READS } from "./reconcileUsage.ts";

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly actor: Actor;
};

/** A meter event whose delivery was unknown, and how much of it the processor has. */
export type SettledDoubt = {
  readonly event: StoredMeterEvent;
  readonly result: "delivered" | "partial" | "absent" | "unclear";
  readonly processorQuantity: number | null;
  readonly reason: string | null;
};

export type AfterRestoreOptions = {
  readonly operator: string;
  /** Usage of earlier seconds is not compared; null: all usage that is not delivered is. */
  readonly since: Date | null;
  /** Compares only. */
  readonly isDryRun: boolean;
};

const NOTE = "in doubt after a restore";

/** How many facts of a stream a statement looks at, so that few look at the same ones. */
const FACTS_AT_A_TIME = 1000;

const refuse = (message: string): never => {
  throw new DomainError("request_invalid", message);
};

/**
 * Returns how long the sums of live usage may lag. The built-in ledger was restored with the database. It billed all of
 * the lost history, too, if neither this history nor this process knows another processor.
 */
const readUsageLagMs = async ({ db, billing }: Dependencies): Promise<number> => {
  const { processor } = await readDeployment(db);
  return processor?.name === "ledger" && billing.liveProcessor === "ledger"
    ? 0
    : LONGEST_USAGE_LAG_MS;
};

/** @throws DomainError request_invalid if an attempt of the stream, or of any stream (null), may be in progress */
const requireNoCall = async (
  db: CommonQueryMethods,
  stream: UsageStream | null,
  clock: Clock,
): Promise<void> => {
  const at = await readDatabaseTime(db, clock);
  if (await isAttemptInProgress(db, stream, leaseOf({ at }))) {
    refuse("a call to the processor may be in progress; repeat the command in 15 seconds");
  }
};

/** @throws DomainError request_invalid if usage is not held, or something that was sent may not be visible yet */
const requireRest = async (deps: Dependencies): Promise<Date> => {
  const { db, clock } = deps;
  const hold: Hold | null = await guardUsage({ db, clock });
  const heldAt = hold?.at ?? refuse("usage is not held; hold it with `impact usage hold` first");
  const visibleAt = new Date(heldAt.getTime() + (await readUsageLagMs(deps)));
  if ((await readDatabaseTime(db, clock)) < visibleAt) {
    refuse(
      `the processor's sums may lag until ${visibleAt.toISOString()}; repeat the command then`,
    );
  }
  await requireNoCall(db, null, clock);
  return heldAt;
};

/** @throws DomainError request_invalid if the hold has ended, or the database has changed since it began */
const requireHold = async (
  transaction: DatabaseTransactionConnection,
  heldAt: Date,
): Promise<void> => {
  const deployment = await readDeployment(transaction);
  if (deployment.hold?.at.getTime() !== heldAt.getTime() || isHoldMissing(deployment)) {
    refuse("the hold has ended or begun anew meanwhile; nothing more was settled");
  }
};

const block = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  { clock, heldAt }: { readonly clock: Clock; readonly heldAt: Date },
): Promise<StoredMeterEvent> => {
  await moveSettledEvent(transaction, event.id, {
    state: "blocked",
    note: NOTE,
    acceptedQuantity: null,
    settledAt: heldAt,
  });
  await recordUsageEvent(transaction, event, "blocked", clock.now());
  return { ...event, state: "blocked", settledAt: heldAt };
};

/**
 * Blocks a stream's usage from before the hold: it may have been sent in the history that was lost. Usage and refunds
 * become events of their own.
 * @returns the events that were blocked
 */
const blockStream = async (
  { billing, clock }: Dependencies,
  transaction: DatabaseTransactionConnection,
  stream: UsageStream,
  { heldAt, firstSecond }: { readonly heldAt: Date; readonly firstSecond: number },
): Promise<readonly StoredMeterEvent[]> => {
  const blocked: StoredMeterEvent[] = [];
  await lockStream(transaction, stream);
  await requireHold(transaction, heldAt);
  const unfinished = await findUnfinishedMeterEvent(transaction, stream);
  if (unfinished) {
    // An attempt may have begun in a transaction that saw no hold and ended after it.
    await requireNoCall(transaction, stream, clock);
    if (unfinished.second >= firstSecond) {
      blocked.push(await block(transaction, unfinished, { clock, heldAt }));
    }
  }
  const account = await findAccount(transaction, stream.accountId);
  const current = currentTarget(billing, account?.stripeCustomerId ?? null, stream.mode);
  const range = { lastSecond: secondOf(heldAt), facts: FACTS_AT_A_TIME };
  // Each statement begins at the oldest second of the one before, which may have more units than fit into one event.
  for (let oldestSecond = firstSecond; ;) {
    const [parts = []] = await listOldestUnsealedFacts(
      transaction,
      [{ ...stream, current, firstSecond: oldestSecond }],
      range,
    );
    const [oldest] = parts;
    if (!oldest) {
      return blocked;
    }
    oldestSecond = oldest.second;
    for (const { ids, held, second, processor, customerId } of parts) {
      for (const signed of await sumFactsBySign(transaction, ids)) {
        const [event] = await insertMeterEvents(
          transaction,
          [
            {
              ...signed,
              stream,
              factIds: signed.ids,
              second,
              processor,
              customerId,
              // Not sealed: an unfinished event of an earlier second may remain.
              state: "held",
            },
          ],
          heldAt,
        );
        if (event && !held) {
          blocked.push(await block(transaction, event, { clock, heldAt }));
        }
      }
    }
  }
};

/**
 * Blocks the usage in doubt and returns its events. A dry run takes everything back. Each stream has a transaction of its
 * own, because a transaction with the locks of all streams can use up the server's memory for locks.
 */
const blockUsageInDoubt = async (
  deps: Dependencies,
  heldAt: Date,
  { since, isDryRun }: AfterRestoreOptions,
): Promise<readonly StoredMeterEvent[]> => {
  const { db } = deps;
  const span = { heldAt, firstSecond: since === null ? 0 : secondOf(since) };
  const streams = (await listWaitingStreams(db)).filter(({ mode }) => mode === "live");
  // An earlier run may have broken off.
  const blocked = [...(await listBlockedEventsSettledAt(db, heldAt))];
  for (const stream of streams) {
    const work = (transaction: DatabaseTransactionConnection) =>
      blockStream(deps, transaction, stream, span);
    blocked.push(...(await (isDryRun ? runAndRollBack(db, work) : db.transaction(work))));
  }
  return blocked;
};

const record = async (
  transaction: DatabaseTransactionConnection,
  { clock }: Dependencies,
  { event, result, processorQuantity }: SettledDoubt,
  heldAt: Date,
): Promise<void> => {
  const state = result === "absent" ? "superseded" : "delivered";
  await moveSettledEvent(transaction, event.id, {
    state,
    note: `the processor has ${counted(processorQuantity ?? 0, "unit")} of it`,
    acceptedQuantity: result === "partial" ? processorQuantity : null,
    // Not now: nothing was sent after the hold, so the sums lag behind nothing.
    settledAt: heldAt,
  });
  await recordUsageEvent(transaction, event, state, clock.now());
  // The workflows of refunds in a blocked event fail.
  await redispatchRefunds(transaction, event.id);
  // Blocking the event held its refunds, and a retry cannot release them: the event is no longer failed.
  await releaseHeldRefunds(transaction, event.id);
  if (result !== "delivered") {
    await releaseFacts(transaction, event.id, processorQuantity ?? 0);
  }
};

/** The events in doubt of one customer and meter in one minute, usage before refunds. The processor has one sum of them. */
type MinuteInDoubt = readonly [StoredMeterEvent, ...StoredMeterEvent[]];

/** Orders usage before refunds, and the events of a stream in the order of their sealings. */
const compareEvents = (a: StoredMeterEvent, b: StoredMeterEvent): number =>
  Math.sign(b.quantity) - Math.sign(a.quantity) ||
  a.accountId.localeCompare(b.accountId) ||
  a.meter.localeCompare(b.meter) ||
  a.second - b.second ||
  Number(a.id - b.id);

const groupByMinute = (events: readonly StoredMeterEvent[]): readonly MinuteInDoubt[] => {
  const minutes = new Map<string, [StoredMeterEvent, ...StoredMeterEvent[]]>();
  for (const event of events.toSorted(compareEvents)) {
    const { processor, customerId, accountId, meter, second } = event;
    const key = [processor, customerId ?? accountId, meter, minuteOf(second).start].join("/");
    const minute = minutes.get(key);
    if (minute) {
      minute.push(event);
    } else {
      minutes.set(key, [event]);
    }
  }
  return [...minutes.values()];
};

const resultOf = (quantity: number, share: number): SettledDoubt["result"] => {
  if (share === quantity) {
    return "delivered";
  }
  return share === 0 ? "absent" : "partial";
};

/** What the processor's sum shows of a minute. It is valid only while the version of the minute's other events is the same. */
type ComparedMinute = {
  readonly doubts: readonly SettledDoubt[];
  readonly othersVersion: string;
};

/** Reads the processor's sum of a minute once, and allots it to the minute's events. */
const compareMinute = async (
  { db, billing }: Dependencies,
  events: MinuteInDoubt,
  signal: AbortSignal,
): Promise<ComparedMinute> => {
  const [first] = events;
  const { accountId, customerId, meter } = first;
  const processor =
    billing.findProcessor(first.processor, first.mode) ??
    refuse(`${first.processor} is not configured, so its usage cannot be compared`);
  const minute = minuteOf(first.second);
  const { explained, version: othersVersion } = await sumOtherEvents(db, events, minute);
  try {
    const customer = { accountId, customerId };
    const theirs = await processor.sumUsage(customer, meter, minute, signal);
    const shares = allotShares(
      events.map(({ quantity }) => quantity),
      theirs - explained,
    );
    const doubts = events.map((event, index) => {
      const share = shares[index] ?? 0;
      return {
        event,
        result: resultOf(event.quantity, share),
        processorQuantity: share,
        reason: null,
      };
    });
    return { doubts, othersVersion };
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      const unclear = {
        result: "unclear",
        processorQuantity: null,
        reason: error.message,
      } as const;
      return { doubts: events.map((event) => ({ event, ...unclear })), othersVersion };
    }
    throw error;
  }
};

/**
 * Compares the events of a minute, and records the result if they have not changed meanwhile: an operator may retry or close
 * one of them, or another comparison may settle them. Their shares of the sum depend on each other, so it is one transaction.
 */
const settleMinute = async (
  deps: Dependencies,
  events: MinuteInDoubt,
  heldAt: Date,
  { isDryRun, signal }: { readonly isDryRun: boolean; readonly signal: AbortSignal },
): Promise<readonly SettledDoubt[]> => {
  const { doubts, othersVersion } = await compareMinute(deps, events, signal);
  if (!isDryRun && doubts.every(({ result }) => result !== "unclear")) {
    await deps.db.transaction(async (transaction) => {
      await lockUnchangedEvents(transaction, events, othersVersion);
      await requireHold(transaction, heldAt);
      for (const doubt of doubts) {
        await record(transaction, deps, doubt, heldAt);
      }
    });
  }
  return doubts;
};

/**
 * Settles the usage that a restore has put in doubt, and ends the hold. All live usage from before the hold that is not
 * delivered may have been sent in the history that was lost. The processor's sum of its minute decides: what it has counts
 * as delivered, and only the rest is sent. Usage that the sums leave unclear stays blocked. A repeated call continues an
 * interrupted one.
 * @throws DomainError request_invalid if usage is not held, it is too early to compare, or an event in doubt was changed
 * concurrently
 */
export const settleAfterRestore = async (
  deps: Dependencies,
  options: AfterRestoreOptions,
  signal: AbortSignal,
): Promise<readonly SettledDoubt[]> => {
  const { db, clock, actor } = deps;
  const heldAt = await requireRest(deps);
  const events = await blockUsageInDoubt(deps, heldAt, options);
  const settled = await runConcurrently(
    groupByMinute(events),
    (minute) => settleMinute(deps, minute, heldAt, { isDryRun: options.isDryRun, signal }),
    { concurrency: CONCURRENT_READS, signal },
  );
  if (!options.isDryRun) {
    await db.transaction(async (transaction) => {
      // No other hold may begin before this one ends.
      await lockDeployment(transaction);
      await requireHold(transaction, heldAt);
      // A retry in the lost history may have been accepted.
      await doubtFailedEvents(transaction);
      await recordAction(
        transaction,
        actor,
        {
          action: "usage.reconcile_after_restore",
          details: { heldAt, since: options.since, events: events.length },
        },
        clock.now(),
      );
      await endHold(transaction, deps, options.operator);
    });
  }
  return settled.flat();
};
