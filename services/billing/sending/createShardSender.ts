import { setTimeout as sleep } from "node:timers/promises";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { listResumableStreams } from "../../../db/billing/sending/usageShards.ts";
import { isContentError } from "../../../db/isContentError.ts";
import { joinCalls } from "../../../db/joinCalls.ts";
import type { SendResult } from "../../../domain/billing/decideNextStep.ts";
import {
  LEASE_MS,
  STRIPE_MISSING,
  wrongProcessor,
} from "../../../domain/billing/decideNextStep.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { lastSealableSecond, streamKey } from "../../../domain/billing/usage.ts";
import { startLease } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import type { ScanStreams } from "./createStreamScans.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import type { Sealing } from "./sealMeterEvents.ts";
import { beginSending, createAttemptRecords, finishSending } from "./sendMeterEvent.ts";
import type { SendingDependencies } from "./sendMeterEvent.ts";
import { lowerStripeCallRate, reserveStripeCalls } from "./shareCallRate.ts";

/** The most concurrent attempts of a shard. A slow call occupies one of them and delays no other. */
const MAXIMUM_RUNNING = 500;

/** So that a busy shard does not scan after each event. */
const ROOM_FOR_MORE = MAXIMUM_RUNNING / 4;

/** Outcomes are recorded together with those of the same time. A statement costs more than what it says of one event. */
const COLLECT_OUTCOMES_MS = 50;

/**
 * How long streams that are behind are gathered, to be sealed together: the longer, the more attempts are running. A
 * statement costs more than what it says of one event, and a stream that is alone should not wait for others.
 */
const MINIMUM_GATHER_MS = 50;
const MAXIMUM_GATHER_MS = 200;
const GATHER_MS_PER_ATTEMPT = 1;

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const REST_MS = 60_000;

/** How soon reserving calls is tried again when all of the near future is reserved. */
const RESERVE_AGAIN_MS = 50;

/** Waits, but not after the signal is aborted. */
const pause = (durationMs: number, signal: AbortSignal): Promise<void> =>
  sleep(durationMs, undefined, { signal }).catch(() => undefined);

export type ShardObservers = {
  /** Called after each attempt. The id is null if nothing was sealed. */
  readonly onResult: (stream: UsageStream, result: SendResult, meterEventId: bigint | null) => void;
  /** Called when a stream's usage could not be sealed or an outcome could not be recorded, for a reason of its own. */
  readonly onFailure: (stream: UsageStream, error: unknown) => void;
};

export type ShardSender = {
  /** Makes the sender scan all streams of its shard for usage, unless a scan is in progress. */
  readonly startScan: () => void;
  /** Seals and begins to send what is ready, as far as there is room. Does not wait for the processor. */
  readonly step: () => Promise<void>;
  /** Waits until another step has something to do, but no longer than this. */
  readonly waitForWork: (atMostMs: number) => Promise<void>;
  /** Resolves when all attempts that have begun are recorded. */
  readonly settled: () => Promise<void>;
  /** Whether nothing is sent or known to be ready. */
  readonly isIdle: () => boolean;
};

/**
 * Creates the sender of a shard: it seals the usage of many streams in one transaction, and sends events of different
 * streams at the same time. An event that fails several times is left to a sender of its stream's own.
 *
 * What it keeps in memory only saves queries. Everything that another process needs to continue is in the database.
 */
export const createShardSender = (
  deps: SendingDependencies,
  shard: number,
  {
    signal,
    scanStreams,
    onResult,
    onFailure,
  }: ShardObservers & { readonly signal: AbortSignal; readonly scanStreams: ScanStreams },
): ShardSender => {
  const { db, clock } = deps;
  const records = createAttemptRecords(db, COLLECT_OUTCOMES_MS);
  /** Many rejections at about the same time are one reason. */
  const lowerRate = joinCalls(async (rejections: readonly null[]) => {
    await lowerStripeCallRate(db);
    return rejections;
  }, COLLECT_OUTCOMES_MS);
  const running = new Set<Promise<void>>();
  /** Streams that have more to send as soon as their event is settled. */
  const behind = new Map<string, UsageStream>();
  /** Streams that are left alone, with the time until when. */
  const resting = new Map<string, number>();
  /** Sealed events whose call has to wait. */
  let sealed: StoredMeterEvent[] = [];
  let scan: { readonly after: UsageStream | null; readonly isFirst: boolean } | null = null;
  let wake = Promise.withResolvers<void>();

  const isReady = (): boolean =>
    (scan !== null || behind.size > 0) &&
    (running.size === 0 || MAXIMUM_RUNNING - running.size >= ROOM_FOR_MORE);

  const attempt = async (
    event: StoredMeterEvent,
    started: LeaseStart,
    startsAtMs: number,
  ): Promise<void> => {
    const { id, accountId, mode, meter, attempts } = event;
    const stream = { accountId, mode, meter };
    const startsInMs = startsAtMs - performance.now();
    if (startsInMs > 0) {
      await pause(startsInMs, signal);
    }
    let result: SendResult;
    try {
      result = await finishSending({ ...deps, records }, event, {
        started,
        signal,
        isShared: true,
      });
    } catch (error) {
      onFailure(stream, error);
      // Its own sender repeats the failure without holding up others. If this fails too, the lease expires.
      await records
        .delay({
          id,
          attempts,
          reason: error instanceof Error ? error.message : String(error),
          outcomeUnknown: true,
          newKey: false,
          inDoubtSince: null,
          retryAt: null,
        })
        .catch(() => undefined);
      return;
    }
    onResult(stream, result, id);
    if (result.kind === "settled") {
      if (event.second < lastSealableSecond(clock.now())) {
        behind.set(streamKey(stream), stream);
      }
    } else if (result.cause === "rate_limited") {
      await lowerRate(null).catch((error: unknown) => onFailure(stream, error));
    }
  };

  /** Makes an attempt that has begun. Nothing waits for it here. */
  const start = (event: StoredMeterEvent, started: LeaseStart, startsAtMs: number): void => {
    const attempted = attempt(event, started, startsAtMs).finally(() => {
      running.delete(attempted);
      if (isReady()) {
        wake.resolve();
      }
    });
    running.add(attempted);
  };

  const begin = async (
    events: readonly StoredMeterEvent[],
    startsAtMs: (index: number) => number,
  ): Promise<void> => {
    if (events.length === 0) {
      return;
    }
    const begun = await beginSending(
      deps,
      events.map(({ id }) => id),
    );
    for (const [index, event] of begun.events.entries()) {
      start(event, begun.started, startsAtMs(index));
    }
  };

  /** Begins what is sealed. Calls to Stripe wait for their share of the rate. */
  const beginSealed = async (): Promise<void> => {
    const calls = sealed.filter(({ processor }) => processor === "stripe");
    const others = sealed.filter(({ processor }) => processor !== "stripe");
    sealed = calls;
    await begin(others, () => 0);
    if (calls.length > 0) {
      const reserved = await db.transaction((transaction) =>
        reserveStripeCalls(transaction, calls.length),
      );
      sealed = calls.slice(reserved.calls);
      await begin(calls.slice(0, reserved.calls), reserved.startsAtMs);
    }
  };

  const rest = (stream: UsageStream): void => {
    resting.set(streamKey(stream), clock.now().getTime() + REST_MS);
  };

  /** Continues with what was sealed of a stream: begins its event, or leaves the stream alone. */
  const proceed = (
    stream: UsageStream,
    sealing: Sealing | undefined,
    { started, isResumed }: { readonly started: LeaseStart; readonly isResumed: boolean },
  ): void => {
    switch (sealing?.kind) {
      case "event":
        if (sealing.startsAtMs !== null) {
          start(sealing.event, started, sealing.startsAtMs);
        } else if (sealing.event.state === "sealed" || isResumed) {
          // Another sender's event that waits for its next attempt is left to it.
          sealed.push(sealing.event);
        }
        break;
      case "stripe_missing":
        onResult(stream, STRIPE_MISSING, null);
        rest(stream);
        break;
      case "wrong_processor":
        onResult(stream, wrongProcessor(sealing.problem), null);
        rest(stream);
        break;
      case "held":
        // Nothing is sealed until an operator ends the hold. The next scan checks again.
        scan = null;
        behind.clear();
        break;
      case "none":
      case undefined:
        break;
    }
  };

  /**
   * Seals streams one by one after some of them have failed together, so that only those at fault wait. Each attempt is
   * made while its lease is new, and even if a later stream cannot be sealed.
   */
  const sealSeparately = async (
    streams: readonly UsageStream[],
    resumed: ReadonlySet<UsageStream>,
  ): Promise<void> => {
    for (const stream of streams) {
      const started = startLease(deps);
      try {
        const [sealing] = await sealMeterEvents(deps, [stream], started);
        proceed(stream, sealing, { started, isResumed: resumed.has(stream) });
      } catch (error) {
        if (!isContentError(error)) {
          throw error;
        }
        onFailure(stream, error);
        rest(stream);
      }
    }
  };

  const sealAll = async (
    streams: readonly UsageStream[],
    resumed: ReadonlySet<UsageStream>,
  ): Promise<void> => {
    const started = startLease(deps);
    let sealings: readonly Sealing[];
    try {
      sealings = await sealMeterEvents(deps, streams, started);
    } catch (error) {
      if (!isContentError(error)) {
        throw error;
      }
      await sealSeparately(streams, resumed);
      return;
    }
    for (const [index, stream] of streams.entries()) {
      proceed(stream, sealings[index], { started, isResumed: resumed.has(stream) });
    }
  };

  /** Returns the next streams to seal or to continue with. `resumed`: those that have an unfinished event. */
  const nextStreams = async (
    limit: number,
  ): Promise<{
    readonly streams: readonly UsageStream[];
    readonly resumed: ReadonlySet<UsageStream>;
  }> => {
    if (scan === null) {
      const streams = [...behind.values()].slice(0, limit);
      for (const stream of streams) {
        behind.delete(streamKey(stream));
      }
      return { streams, resumed: new Set() };
    }
    const now = clock.now();
    const lease = { now, until: new Date(now.getTime() + LEASE_MS) };
    const resumed = scan.isFirst ? await listResumableStreams(db, { shard, lease, limit }) : [];
    const { streams, next } = await scanStreams({
      shard,
      after: scan.after,
      lastSecond: lastSealableSecond(now),
      limit: Math.max(1, limit - resumed.length),
    });
    // A complete scan finds all streams, also those that are behind.
    behind.clear();
    scan = next === null ? null : { after: next, isFirst: false };
    return { streams: [...resumed, ...streams], resumed: new Set(resumed) };
  };

  const isResting = (stream: UsageStream, nowMs: number): boolean => {
    const until = resting.get(streamKey(stream));
    if (until !== undefined && until <= nowMs) {
      resting.delete(streamKey(stream));
    }
    return until !== undefined && until > nowMs;
  };

  const sealNext = async (limit: number): Promise<void> => {
    const next = await nextStreams(limit);
    const nowMs = clock.now().getTime();
    const streams = next.streams.filter((stream) => !isResting(stream, nowMs));
    if (streams.length > 0) {
      await sealAll(streams, next.resumed);
    }
  };

  return {
    startScan: () => {
      scan ??= { after: null, isFirst: true };
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      if (sealed.length === 0 && isReady()) {
        await sealNext(MAXIMUM_RUNNING - running.size);
      }
      await beginSealed();
    },
    waitForWork: async (atMostMs) => {
      if (sealed.length > 0 || !isReady()) {
        const timer = new AbortController();
        const pauseMs = sealed.length > 0 ? Math.min(RESERVE_AGAIN_MS, atMostMs) : atMostMs;
        await Promise.race([wake.promise, pause(pauseMs, AbortSignal.any([timer.signal, signal]))]);
        timer.abort();
      }
      if (scan === null && behind.size > 0 && running.size > 0) {
        const gatherMs = Math.max(MINIMUM_GATHER_MS, running.size * GATHER_MS_PER_ATTEMPT);
        await pause(Math.min(gatherMs, MAXIMUM_GATHER_MS, atMostMs), signal);
      }
    },
    settled: async () => {
      while (running.size > 0) {
        await Promise.all(running);
      }
    },
    isIdle: () => running.size === 0 && sealed.length === 0 && scan === null && behind.size === 0,
  };
};
