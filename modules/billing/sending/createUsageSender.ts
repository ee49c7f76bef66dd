import { createRuns } from "../../../db/createRuns.ts";
import type { RunOptions, Runs, Sender } from "../../../db/createRuns.ts";
import { isContentError } from "../../../db/databaseErrors.ts";
import { MODES, ownerKey } from "../../records/owner.rules.ts";
import type { Mode, Owner } from "../../records/owner.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { awaitAtMost, pause } from "../../../runtime/waiting.ts";
import type { BillingContext } from "../context.ts";
import { createAttempts, RESERVE_AGAIN_MS } from "./createAttempts.ts";
import type { Attempts } from "./createAttempts.ts";
import { createCallRate } from "./createCallRate.ts";
import { createStreamQueue, createStreamScans } from "./createStreamQueue.ts";
import type { StreamQueue, StreamScans } from "./createStreamQueue.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import type { Sealing, UnsealedStream } from "./sealMeterEvents.ts";

/** The most concurrent attempts. A slow call occupies one of them and delays no other. */
const MAXIMUM_RUNNING = 2000;

/** The most streams that one transaction seals, so that the first calls need not wait for the last stream. */
const MAXIMUM_SEALED = 500;

/** Stripe's limit in live mode. */
const CALLS_PER_SECOND = 1000;

/** The free part of these places, so that a busy sender does not seal after each event. */
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

const streamOf = ({ accountId, mode, kind }: Owner): Owner => ({ accountId, mode, kind });

export type SendObservers = {
  /** Called after each attempt. The id is null if nothing was sealed. */
  readonly onResult: (stream: Owner, result: SendResult, meterEventId: bigint | null) => void;
  /** Called when a stream's usage could not be sealed or an outcome could not be recorded, for a reason of its own. */
  readonly onFailure: (stream: Owner, error: unknown) => void;
};

/** A step seals and begins to send what is ready. */
export type UsageSender = Sender & {
  /** Whether nothing is sent or known to be ready. */
  readonly isIdle: () => boolean;
};

type SenderOptions = SendObservers & {
  readonly signal: AbortSignal;
  readonly scans: StreamScans;
  readonly maximumRunning?: number;
  /** How many calls to Stripe are made in a second. */
  readonly callsPerSecond?: number | undefined;
};

type Queues = { readonly streams: StreamQueue; readonly attempts: Attempts };

/** Continues with what was sealed of a stream: makes its attempt, or leaves the stream alone. */
const proceed = (
  { streams, attempts }: Queues,
  { onResult }: SendObservers,
  stream: UnsealedStream,
  sealing: Sealing,
): void => {
  switch (sealing.kind) {
    case "event":
      if (sealing.isResumable) {
        attempts.add(sealing.event);
      }
      break;
    case "more":
      streams.add(stream, sealing.second);
      break;
    case "waits":
      onResult(streamOf(stream), sealing.delay, null);
      streams.pause(stream);
      break;
    case "held":
      // Nothing is sealed until an operator ends the hold. The next scan checks again.
      streams.clear();
      break;
    case "none":
      break;
  }
};

/**
 * Seals streams together. If the database rejects the content of one, each is sealed by itself, so that only those at fault
 * wait.
 */
const sealTogether = async (
  context: BillingContext,
  streams: readonly UnsealedStream[],
  observers: SendObservers,
  queues: Queues,
): Promise<void> => {
  let sealings: readonly Sealing[];
  try {
    sealings = await sealMeterEvents(context, streams);
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    for (const stream of streams) {
      if (streams.length > 1) {
        await sealTogether(context, [stream], observers, queues);
      } else {
        observers.onFailure(streamOf(stream), error);
        queues.streams.pause(stream);
      }
    }
    return;
  }
  for (const [index, stream] of streams.entries()) {
    proceed(queues, observers, stream, sealings[index] ?? { kind: "none" });
  }
};

/**
 * Creates the sender of usage: it seals the usage of many streams in one transaction, and sends events of different
 * streams at the same time. An event that fails waits with its own delay, and its stream's later usage behind it. Usage is
 * billed once because of what is committed before each step:
 * 1. An attempt begins only if its event is committed with its identifier.
 * 2. A call is made only if its attempt is committed with its lease, and it does not leave after the lease.
 * 3. The outcome is recorded after the call, unless another attempt has begun. Without an outcome, the attempt after the
 *    lease sends the same identifier.
 *
 * What is kept in memory only saves queries. Everything that another process needs to continue is in the database.
 */
export const createUsageSender = (context: BillingContext, options: SenderOptions): UsageSender => {
  const { signal, scans, onResult, onFailure, maximumRunning = MAXIMUM_RUNNING } = options;
  const { callsPerSecond = CALLS_PER_SECOND } = options;
  const streams = createStreamQueue(context.clock, scans);
  const attempts = createAttempts(context, {
    signal,
    rate: createCallRate(callsPerSecond),
    onResult: (event, result) => {
      const stream = streamOf(event);
      onResult(stream, result, event.id);
      if (result.kind === "settled" && event.second < lastSealableSecond(context.clock.now())) {
        streams.add(stream, event.second);
      }
    },
    onFailure: (event, error) => onFailure(streamOf(event), error),
    onEnd: () => {
      if (isReady()) {
        wake.resolve();
      }
    },
  });
  let wake = Promise.withResolvers<void>();
  /** Whether a scan has found streams since the last step. It finds all of a second, so there is nothing to gather. */
  let hasFound = false;
  /** The streams that are being sealed. */
  let sealed: readonly UnsealedStream[] = [];

  const room = (): number => maximumRunning - attempts.running();

  /**
   * Whether streams of a mode can be sealed. Those in live mode wait while earlier ones wait for calls. The built-in ledger has
   * usage in test mode once it is sealed, so that never waits for Stripe.
   */
  const isReadyIn = (mode: Mode): boolean =>
    streams.has(mode) &&
    (mode === "test" ||
      (!attempts.isWaiting() &&
        (attempts.running() === 0 || room() >= maximumRunning * ROOM_FOR_MORE)));

  const isReady = (): boolean => MODES.some(isReadyIn);

  signal.addEventListener("abort", () => wake.resolve(), { once: true });

  return {
    startRun: attempts.clear,
    scan: async () => {
      const hasStreams = await streams.scan(() => [
        ...sealed.map(ownerKey),
        ...attempts.streamKeys(),
      ]);
      if (hasStreams && isReady()) {
        hasFound = true;
        wake.resolve();
      }
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      hasFound = false;
      sealed = MODES.filter(isReadyIn).flatMap((mode) =>
        streams.take(mode, Math.min(MAXIMUM_SEALED, mode === "test" ? maximumRunning : room())),
      );
      if (sealed.length > 0) {
        await sealTogether(context, sealed, options, { streams, attempts });
        sealed = [];
      }
      await attempts.begin();
    },
    waitForWork: async (atMostMs) => {
      if (attempts.isWaiting() || !isReady()) {
        const pauseMs = attempts.isWaiting() ? Math.min(RESERVE_AGAIN_MS, atMostMs) : atMostMs;
        await awaitAtMost(wake.promise, pauseMs);
      }
      if (!hasFound && !streams.isEmpty() && attempts.running() > 0) {
        await pause(Math.min(gatherMs(attempts.running()), atMostMs), signal);
      }
    },
    settled: attempts.settled,
    isIdle: () => attempts.running() === 0 && !attempts.isWaiting() && streams.isEmpty(),
  };
};

/**
 * Creates the runs that report usage. They scan for it every second, because the facts of another second may be sealed.
 */
export const createReportingRuns = (
  context: BillingContext,
  {
    runMs,
    ...options
  }: SendObservers & Pick<RunOptions, "runMs"> & Pick<SenderOptions, "callsPerSecond">,
): Runs => {
  const scans = createStreamScans(context);
  return createRuns(context, {
    kind: "usage-sender",
    createSender: (signal) => createUsageSender(context, { ...options, scans, signal }),
    runMs,
  });
};
