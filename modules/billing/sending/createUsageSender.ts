import { createRuns } from "../../../db/createRuns.ts";
import type { RunOptions, Runs, Sender } from "../../../db/createRuns.ts";
import type { Scan } from "../../../db/createScan.ts";
import { isContentError } from "../../../db/databaseErrors.ts";
import { MODES, ownerKey } from "../../records/owner.rules.ts";
import type { Mode, Owner } from "../../records/owner.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { awaitAtMost, pause } from "../../../runtime/waiting.ts";
import type { BillingContext } from "../context.ts";
import { createAttempts } from "./createAttempts.ts";
import type { Attempts } from "./createAttempts.ts";
import { createStreamQueue, createStreamScan } from "./createStreamQueue.ts";
import type { StreamQueue } from "./createStreamQueue.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import type { Sealing } from "./sealMeterEvents.ts";
import { startLease } from "./sendMeterEvent.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";

/** The most concurrent attempts. A slow call occupies one of them and delays no other. */
const MAXIMUM_RUNNING = 2000;

/** The most streams that one transaction seals, so that the first calls need not wait for the last stream. */
const MAXIMUM_SEALED = 500;

/** Stripe's limit in live mode. */
const CALLS_PER_SECOND = 1000;

/** The free part of these places, so that a busy sender does not seal after each event. */
const ROOM_FOR_MORE = 1 / 4;

/** How soon usage that was found is looked at again if all calls of the near future are reserved. */
const RESERVE_AGAIN_MS = 50;

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

/** A step begins to send what is ready. */
export type UsageSender = Sender & {
  /** Whether nothing is sent or known to be ready. */
  readonly isIdle: () => boolean;
};

type SenderOptions = SendObservers & {
  readonly signal: AbortSignal;
  readonly scan: Scan<UnsentStream>;
  readonly maximumRunning?: number;
  /** How many calls to Stripe are made in a second. */
  readonly callsPerSecond?: number | undefined;
};

type Queues = { readonly streams: StreamQueue; readonly attempts: Attempts };

/**
 * Begins the attempts of streams together. If the database rejects the content of one, each is begun by itself, so that only
 * those at fault wait.
 */
const beginTogether = async (
  context: BillingContext,
  taken: readonly UnsentStream[],
  observers: SendObservers,
  queues: Queues,
): Promise<void> => {
  const { streams, attempts } = queues;
  const started = startLease(context);
  let sealings: readonly Sealing[];
  try {
    sealings = await sealMeterEvents(context, taken, started.at);
  } catch (error) {
    if (!isContentError(error)) {
      throw error;
    }
    for (const stream of taken) {
      if (taken.length > 1) {
        await beginTogether(context, [stream], observers, queues);
      } else {
        observers.onFailure(streamOf(stream), error);
        streams.pause(stream);
      }
    }
    return;
  }
  for (const [index, stream] of taken.entries()) {
    const sealing = sealings[index];
    if (sealing?.kind === "event") {
      attempts.begin(sealing.event, started);
    } else if (sealing?.kind === "more") {
      streams.add(stream, sealing.second);
    } else if (sealing?.kind === "waits") {
      observers.onResult(streamOf(stream), sealing.delay, null);
      streams.pause(stream);
    } else if (sealing?.kind === "held") {
      // Nothing is sealed until an operator ends the hold. The next scan checks again.
      streams.clear();
    }
  }
};

/**
 * Creates the sender of usage: it seals the usage of many streams in one transaction, and sends events of different
 * streams at the same time. An event that fails waits with its own delay, and its stream's later usage behind it. Usage is
 * billed once because of what is committed before each step:
 * 1. A call is made only if its event is committed with its identifier, and its attempt with its lease. It does not leave after
 *    the lease.
 * 2. The outcome is recorded after the call, unless another attempt has begun. Without an outcome, the attempt after the
 *    lease sends the same identifier.
 *
 * What is kept in memory only saves queries. Everything that another process needs to continue is in the database.
 */
export const createUsageSender = (context: BillingContext, options: SenderOptions): UsageSender => {
  const { signal, scan, onResult, onFailure, maximumRunning = MAXIMUM_RUNNING } = options;
  const { callsPerSecond = CALLS_PER_SECOND } = options;
  const { clock } = context;
  const streams = createStreamQueue(clock);
  const attempts = createAttempts(context, {
    signal,
    callsPerSecond,
    onResult: (event, result) => {
      onResult(streamOf(event), result, event.id);
      if (result.kind === "settled" && event.second < lastSealableSecond(clock.now())) {
        streams.add(event, event.second);
      }
    },
    onFailure: (event, error) => onFailure(streamOf(event), error),
    onEnd: () => {
      if (isReady()) {
        wake.resolve();
      }
    },
  });
  /** The streams whose attempts are being begun. */
  let sealed: readonly string[] = [];
  /** Whether a scan has found streams since the last step. It finds all of a second, so there is nothing to gather. */
  let hasFound = false;
  let wake = Promise.withResolvers<void>();

  /**
   * Returns how many streams of a mode may be sealed. In live mode, each may need a call to Stripe. The built-in ledger has
   * usage in test mode once it is sealed, so that never waits for Stripe.
   */
  const placesIn = (mode: Mode): number => {
    if (mode === "test") {
      return MAXIMUM_SEALED;
    }
    const room = maximumRunning - attempts.running();
    const isBusy = attempts.running() > 0 && room < maximumRunning * ROOM_FOR_MORE;
    return isBusy ? 0 : Math.min(MAXIMUM_SEALED, room, attempts.freeCalls());
  };

  const isReady = (): boolean => MODES.some((mode) => streams.has(mode) && placesIn(mode) > 0);

  signal.addEventListener("abort", () => wake.resolve(), { once: true });

  return {
    scan: async () => {
      const found = await scan();
      if (found === null) {
        return;
      }
      // The scan may be older than what has begun.
      const begun = new Set([...sealed, ...attempts.streamKeys()]);
      const ready = found.filter((stream) => !begun.has(ownerKey(stream)));
      streams.addFound(ready);
      if (ready.length > 0 && isReady()) {
        hasFound = true;
        wake.resolve();
      }
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      hasFound = false;
      const taken = MODES.flatMap((mode) => streams.take(mode, placesIn(mode)));
      sealed = taken.map(ownerKey);
      if (taken.length > 0) {
        await beginTogether(context, taken, options, { streams, attempts });
        sealed = [];
      }
    },
    waitForWork: async (atMostMs) => {
      if (!isReady()) {
        const pauseMs = streams.isEmpty() ? atMostMs : Math.min(RESERVE_AGAIN_MS, atMostMs);
        await awaitAtMost(wake.promise, pauseMs);
      }
      if (!hasFound && !streams.isEmpty() && attempts.running() > 0) {
        await pause(Math.min(gatherMs(attempts.running()), atMostMs), signal);
      }
    },
    settled: attempts.settled,
    isIdle: () => attempts.running() === 0 && streams.isEmpty(),
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
  const scan = createStreamScan(context);
  return createRuns(context, {
    kind: "usage-sender",
    createSender: (signal) => createUsageSender(context, { ...options, scan, signal }),
    runMs,
  });
};
