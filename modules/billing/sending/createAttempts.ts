import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { ownerKey } from "../../records/owner.rules.ts";
import { pause } from "../../../runtime/waiting.ts";
import type { BillingContext } from "../context.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { recordOutcomes } from "./attempts.sql.ts";
import type { RecordedOutcome } from "./attempts.sql.ts";
import { createCallRate } from "./createCallRate.ts";
import { MAXIMUM_RETRY_DELAY_MS } from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { finishSending } from "./sendMeterEvent.ts";
import type { LeaseStart, RecordOutcome } from "./sendMeterEvent.ts";

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

type AttemptOptions = {
  readonly signal: AbortSignal;
  readonly callsPerSecond: number;
  readonly onResult: (event: StoredMeterEvent, result: SendResult) => void;
  readonly onFailure: (event: StoredMeterEvent, error: unknown) => void;
  readonly onEnd: () => void;
};

/** Creates the attempts that the sender makes at the same time. Calls to Stripe wait for their share of the rate. */
export const createAttempts = (
  context: BillingContext,
  { signal, callsPerSecond, onResult, onFailure, onEnd }: AttemptOptions,
) => {
  const rate = createCallRate(callsPerSecond);
  const record = createOutcomeRecords(context, COLLECT_OUTCOMES_MS);
  const running = new Map<Promise<void>, string>();

  /** @param startsInMs when it may call the processor */
  const make = async (
    event: StoredMeterEvent,
    started: LeaseStart,
    startsInMs: number,
  ): Promise<void> => {
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
    /** Makes the attempt of an event, which is recorded with its lease. */
    begin: (event: StoredMeterEvent, started: LeaseStart): void => {
      const made = make(event, started, rate.reserve() - performance.now()).finally(() => {
        running.delete(made);
        onEnd();
      });
      running.set(made, ownerKey(event));
    },
    /** Returns how many attempts may begin now, as far as the rate permits. */
    freeCalls: rate.free,
    /** Returns how many attempts are in progress. */
    running: (): number => running.size,
    streamKeys: (): Iterable<string> => running.values(),
    settled: async (): Promise<void> => {
      while (running.size > 0) {
        await Promise.all(running.keys());
      }
    },
  };
};

export type Attempts = ReturnType<typeof createAttempts>;
