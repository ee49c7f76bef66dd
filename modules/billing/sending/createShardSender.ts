import { isContentError } from "../../../db/databaseErrors.ts";
import { MODES, ownerKey } from "../../records/owner.rules.ts";
import type { Mode, Owner } from "../../records/owner.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { STRIPE_MISSING, wrongProcessor } from "./decideNextStep.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import type { ShardSender } from "../../../db/createShardRuns.ts";
import { awaitAtMost, pause } from "../../../runtime/waiting.ts";
import type { BillingContext } from "../context.ts";
import { startLease } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import { createAttemptPool } from "./createAttemptPool.ts";
import type { AttemptPool } from "./createAttemptPool.ts";
import { createAttemptQueue } from "./createAttemptQueue.ts";
import type { AttemptQueue } from "./createAttemptQueue.ts";
import { createStreamQueue } from "./createStreamQueue.ts";
import type { StreamQueue, StreamScans } from "./createStreamQueue.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import type { Sealing, UnsealedStream } from "./sealMeterEvents.ts";
import { RESERVE_AGAIN_MS } from "./shareCallRate.ts";

/** The most concurrent attempts of a shard. A slow call occupies one of them and delays no other. */
const MAXIMUM_RUNNING = 500;

/** The free part of these places, so that a busy shard does not seal after each event. */
const ROOM_FOR_MORE = 1 / 4;

/**
 * How long streams that are behind are gathered, to be sealed together: the longer, the more attempts are running. A
 * statement costs more than what it says of one event, and a stream that is alone should not wait for others.
 */
const MINIMUM_GATHER_MS = 50;
const MAXIMUM_GATHER_MS = 200;
const GATHER_MS_PER_ATTEMPT = 1;

const gatherMs = (attempts: number): number =>
  Math.min(MAXIMUM_GATHER_MS, Math.max(MINIMUM_GATHER_MS, attempts * GATHER_MS_PER_ATTEMPT));

const streamOf = ({ accountId, mode, kind }: Owner): Owner => ({
  accountId,
  mode,
  kind,
});

export type ShardObservers = {
  /** Called after each attempt. The id is null if nothing was sealed. */
  readonly onResult: (stream: Owner, result: SendResult, meterEventId: bigint | null) => void;
  /** Called when a stream's usage could not be sealed or an outcome could not be recorded, for a reason of its own. */
  readonly onFailure: (stream: Owner, error: unknown) => void;
};

/** A step seals and begins to send what is ready. */
export type UsageSender = ShardSender & {
  /** Whether nothing is sent or known to be ready. */
  readonly isIdle: () => boolean;
};

type SealingContext = ShardObservers & {
  readonly deps: BillingContext;
  readonly streams: StreamQueue;
  readonly attempts: AttemptQueue;
  readonly pool: AttemptPool;
};

/** Continues with what was sealed of a stream: makes its attempt, or leaves the stream alone. */
const proceed = (
  { streams, attempts, pool, onResult }: SealingContext,
  stream: Owner,
  sealing: Sealing | undefined,
  started: LeaseStart,
): void => {
  switch (sealing?.kind) {
    case "event": {
      const { event, startsAtMs, isResumable } = sealing;
      if (startsAtMs !== null) {
        pool.start({ event, started, startsAtMs });
      } else if (isResumable) {
        attempts.add(event);
      }
      break;
    }
    case "more":
      streams.add(stream, sealing.second);
      break;
    case "stripe_missing":
      onResult(stream, STRIPE_MISSING, null);
      streams.pause(stream);
      break;
    case "wrong_processor":
      onResult(stream, wrongProcessor(sealing.problem), null);
      streams.pause(stream);
      break;
    case "held":
      // Nothing is sealed until an operator ends the hold. The next scan checks again.
      streams.clear();
      break;
    case "none":
    case undefined:
      break;
  }
};

/**
 * Seals streams together. If some of them cannot be sealed, each is sealed by itself, so that only those at fault wait.
 * Then each attempt is made while its lease is new, and even if a later stream cannot be sealed.
 */
const seal = async (context: SealingContext, queued: readonly UnsealedStream[]): Promise<void> => {
  const { deps, streams, onFailure } = context;
  const started = startLease(deps);
  let sealings: readonly Sealing[];
  try {
    sealings = await sealMeterEvents(deps, queued, started);
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    for (const stream of queued) {
      if (queued.length > 1) {
        await seal(context, [stream]);
      } else {
        onFailure(stream, error);
        streams.pause(stream);
      }
    }
    return;
  }
  for (const [index, stream] of queued.entries()) {
    proceed(context, stream, sealings[index], started);
  }
};

/**
 * Creates the sender of a shard: it seals the usage of many streams in one transaction, and sends events of different
 * streams at the same time. An event that fails waits with its own delay, and its stream's later usage behind it.
 *
 * Streams go from the stream queue into a sealing. A new event's attempt usually begins with its sealing, and goes
 * directly into the pool. Others begin in the attempt queue. Usage is billed once because of what is committed before
 * each step:
 * 1. An attempt begins only if its event is committed with its identifier.
 * 2. The pool gets an attempt only if it is committed with its lease. Its call does not leave after the lease.
 * 3. The pool records the outcome after the call, unless another attempt has begun. Without an outcome, the attempt after
 *    the lease sends the same identifier.
 *
 * What is kept in memory only saves queries. Everything that another process needs to continue is in the database.
 */
export const createShardSender = (
  deps: BillingContext,
  shard: number,
  {
    signal,
    scans,
    onResult,
    onFailure,
    maximumRunning = MAXIMUM_RUNNING,
  }: ShardObservers & {
    readonly signal: AbortSignal;
    readonly scans: StreamScans;
    readonly maximumRunning?: number;
  },
): UsageSender => {
  const streams = createStreamQueue(deps.clock, shard, scans);
  const pool = createAttemptPool(deps, {
    signal,
    onResult: (event, result) => {
      onResult(streamOf(event), result, event.id);
      if (result.kind === "settled" && event.second < lastSealableSecond(deps.clock.now())) {
        streams.add(streamOf(event), event.second);
      }
    },
    onFailure: (event, error) => onFailure(streamOf(event), error),
    onEnd: () => {
      if (isReady()) {
        wake.resolve();
      }
    },
  });
  const attempts = createAttemptQueue(deps, pool.start);
  const context: SealingContext = { deps, streams, attempts, pool, onResult, onFailure };
  let wake = Promise.withResolvers<void>();
  /** Whether a scan has found streams since the last step. It finds all of a second, so there is nothing to gather. */
  let hasFound = false;

  let sealed: readonly UnsealedStream[] = [];

  const listSentKeys = (): readonly string[] =>
    [sealed.map(ownerKey), pool.streamKeys(), attempts.streamKeys()].flat();

  const room = (): number => maximumRunning - pool.size();

  /**
   * Whether streams of a mode can be sealed. Those in live mode wait while earlier ones wait for calls. The built-in ledger has
   * usage in test mode once it is sealed, so that never waits for Stripe.
   */
  const isReadyIn = (mode: Mode): boolean =>
    streams.has(mode) &&
    (mode === "test" ||
      (attempts.isEmpty() && (pool.size() === 0 || room() >= maximumRunning * ROOM_FOR_MORE)));

  const isReady = (): boolean => MODES.some(isReadyIn);

  signal.addEventListener("abort", () => wake.resolve(), { once: true });

  return {
    startRun: attempts.clear,
    scan: async () => {
      if ((await streams.scan(listSentKeys)) && isReady()) {
        hasFound = true;
        wake.resolve();
      }
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      hasFound = false;
      sealed = MODES.filter(isReadyIn).flatMap((mode) =>
        streams.take(mode, mode === "test" ? maximumRunning : room()),
      );
      if (sealed.length > 0) {
        await seal(context, sealed);
        sealed = [];
      }
      await attempts.begin();
    },
    waitForWork: async (atMostMs) => {
      if (!attempts.isEmpty() || !isReady()) {
        const pauseMs = attempts.isEmpty() ? atMostMs : Math.min(RESERVE_AGAIN_MS, atMostMs);
        await awaitAtMost(wake.promise, pauseMs);
      }
      if (!hasFound && !streams.isEmpty() && pool.size() > 0) {
        await pause(Math.min(gatherMs(pool.size()), atMostMs), signal);
      }
    },
    settled: pool.settled,
    isIdle: () => pool.size() === 0 && attempts.isEmpty() && streams.isEmpty(),
  };
};
