import { joinCalls } from "../../../db/batching/joinCalls.ts";
import type { BillingContext } from "../context.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { recordOutcomes } from "./attempts.sql.ts";
import type { RecordedOutcome } from "./attempts.sql.ts";
import type { CallRate } from "./createCallRate.ts";
import { MAXIMUM_RETRY_DELAY_MS } from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { beginSending, finishSending } from "./sendMeterEvent.ts";
import type { LeaseStart, RecordOutcome } from "./sendMeterEvent.ts";
import { ownerKey } from "../../records/owner.rules.ts";
import { pause } from "../../../runtime/waiting.ts";

/** How soon reserving calls is tried again when all of the near future is reserved. */
export const RESERVE_AGAIN_MS = 50;

/** Outcomes are recorded together with those of the same time. A statement costs more than what it says of one event. */
const COLLECT_OUTCOMES_MS = 50;

/** Creates the records of attempts: those of the same time are made in one statement. */
export const createOutcomeRecords = (
  { db }: Pick<BillingContext, "db">,
  collectMs = 0,
): RecordOutcome =>
  joinCalls(
    async (outcomes) => {
      await recordOutcomes(db, outcomes);
      return outcomes.map(() => undefined);
    },
    { collectMs },
  );

type AttemptObservers = {
  readonly onResult: (event: StoredMeterEvent, result: SendResult) => void;
  readonly onFailure: (event: StoredMeterEvent, error: unknown) => void;
  readonly onEnd: () => void;
};

/** Returns the delay of an event whose attempt ended in an error of ours, and which would probably fail again. */
const delayAfter = (
  { clock }: BillingContext,
  { id, attempts }: StoredMeterEvent,
  error: unknown,
): RecordedOutcome => {
  const now = clock.now();
  const reason = error instanceof Error ? error.message : String(error);
  const retryAt = new Date(now.getTime() + MAXIMUM_RETRY_DELAY_MS);
  return { id, attempts, state: "pending", reason, outcomeUnknown: true, retryAt, now };
};

/** Creates the attempts that the sender makes at the same time. */
export const createAttempts = (
  context: BillingContext,
  {
    signal,
    rate,
    onResult,
    onFailure,
    onEnd,
  }: AttemptObservers & { readonly signal: AbortSignal; readonly rate: CallRate },
) => {
  let waiting: StoredMeterEvent[] = [];
  const running = new Map<Promise<void>, string>();
  const record = createOutcomeRecords(context, COLLECT_OUTCOMES_MS);

  /** @param startsAtMs when it may call the processor, by the monotonic clock */
  const make = async (
    event: StoredMeterEvent,
    started: LeaseStart,
    startsAtMs: number,
  ): Promise<void> => {
    const startsInMs = startsAtMs - performance.now();
    if (startsInMs > 0) {
      await pause(startsInMs, signal);
    }
    let result: SendResult;
    try {
      result = await finishSending({ ...context, record }, event, { started, signal });
    } catch (error) {
      onFailure(event, error);
      // If this fails too, the lease expires.
      await record(delayAfter(context, event, error)).catch(() => undefined);
      return;
    }
    onResult(event, result);
    if (result.kind === "delayed" && result.cause === "rate_limited") {
      rate.lower();
    }
  };

  return {
    /** Adds a sealed event whose next attempt has not begun. */
    add: (event: StoredMeterEvent): void => {
      waiting.push(event);
    },
    /** Commits the next attempts with their lease, and starts them. Calls to Stripe wait for their share of the rate. */
    begin: async (): Promise<void> => {
      if (waiting.length === 0) {
        return;
      }
      const startTimesMs = rate.reserve(waiting.length);
      const called = waiting.splice(0, startTimesMs.length);
      if (called.length === 0) {
        return;
      }
      const ids = called.map(({ id }) => id);
      const { started, events } = await beginSending(context, ids);
      for (const [index, event] of events.entries()) {
        const made = make(event, started, startTimesMs[index] ?? 0).finally(() => {
          running.delete(made);
          onEnd();
        });
        running.set(made, ownerKey(event));
      }
    },
    /** Forgets the events that wait. The next scan finds those that still do. */
    clear: (): void => {
      waiting = [];
    },
    isWaiting: (): boolean => waiting.length > 0,
    /** Returns how many attempts are in progress. */
    running: (): number => running.size,
    /** Returns the keys of the streams of all events. */
    streamKeys: (): readonly string[] => [...running.values(), ...waiting.map(ownerKey)],
    settled: async (): Promise<void> => {
      while (running.size > 0) {
        await Promise.all(running.keys());
      }
    },
  };
};

export type Attempts = ReturnType<typeof createAttempts>;
