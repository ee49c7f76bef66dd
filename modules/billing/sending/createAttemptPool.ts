import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { ownerKey } from "../../records/owner.rules.ts";
import { pause } from "../../../runtime/waiting.ts";
import { MAXIMUM_RETRY_DELAY_MS } from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import type { BillingContext } from "../context.ts";
import type { LeaseStart } from "./attemptLease.ts";
import { finishSending } from "./sendMeterEvent.ts";
import { createAttemptRecords } from "./createAttemptRecords.ts";
import { lowerStripeCallRate } from "./shareCallRate.ts";

/** Outcomes are recorded together with those of the same time. A statement costs more than what it says of one event. */
const COLLECT_OUTCOMES_MS = 50;

/** An attempt that is committed with its lease. */
export type BegunAttempt = {
  readonly event: StoredMeterEvent;
  readonly started: LeaseStart;
  /** When it may call the processor, by the monotonic clock. */
  readonly startsAtMs: number;
};

type AttemptObservers = {
  readonly onResult: (event: StoredMeterEvent, result: SendResult) => void;
  readonly onFailure: (event: StoredMeterEvent, error: unknown) => void;
  readonly onEnd: () => void;
};

export type AttemptPool = {
  /** Makes an attempt that has begun, and records its outcome. Does not wait for it. */
  readonly start: (attempt: BegunAttempt) => void;
  readonly size: () => number;
  readonly streamKeys: () => readonly string[];
  readonly settled: () => Promise<void>;
};

/** Creates the pool of the attempts that a shard's sender makes at the same time. */
export const createAttemptPool = (
  context: BillingContext,
  { signal, onResult, onFailure, onEnd }: AttemptObservers & { readonly signal: AbortSignal },
): AttemptPool => {
  /** The attempts in progress, with the keys of their streams. */
  const running = new Map<Promise<void>, string>();
  const records = createAttemptRecords(context.db, COLLECT_OUTCOMES_MS);
  /** Many rejections at about the same time are one reason. */
  const lowerRate = joinCalls(
    async (rejections: readonly null[]) => {
      await lowerStripeCallRate(context.db);
      return rejections;
    },
    { collectMs: COLLECT_OUTCOMES_MS },
  );

  /** Delays an event whose attempt ended in an error of ours, and which would probably fail again. */
  const leave = ({ id, attempts }: StoredMeterEvent, error: unknown): Promise<null> =>
    records.delay({
      id,
      attempts,
      reason: error instanceof Error ? error.message : String(error),
      outcomeUnknown: true,
      newKey: false,
      askingSince: null,
      retryAt: new Date(context.clock.now().getTime() + MAXIMUM_RETRY_DELAY_MS),
    });

  const make = async ({ event, started, startsAtMs }: BegunAttempt): Promise<void> => {
    const startsInMs = startsAtMs - performance.now();
    if (startsInMs > 0) {
      await pause(startsInMs, signal);
    }
    let result: SendResult;
    try {
      result = await finishSending({ ...context, records }, event, { started, signal });
    } catch (error) {
      onFailure(event, error);
      // If this fails too, the lease expires.
      await leave(event, error).catch(() => undefined);
      return;
    }
    onResult(event, result);
    if (result.kind === "delayed" && result.cause === "rate_limited") {
      await lowerRate(null).catch((error: unknown) => onFailure(event, error));
    }
  };

  return {
    start: (attempt) => {
      const made = make(attempt).finally(() => {
        running.delete(made);
        onEnd();
      });
      running.set(made, ownerKey(attempt.event));
    },
    size: () => running.size,
    streamKeys: () => [...running.values()],
    settled: async () => {
      while (running.size > 0) {
        await Promise.all(running.keys());
      }
    },
  };
};
