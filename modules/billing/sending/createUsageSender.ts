import { LRUCache } from "lru-cache";
import { createRuns } from "../../../db/createRuns.ts";
import type { Runs, Work } from "../../../db/createRuns.ts";
import { createScan } from "../../../db/createScan.ts";
import type { Scan } from "../../../db/createScan.ts";
import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { isContentError } from "../../../db/databaseErrors.ts";
import { ownerKey } from "../../records/owner.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import type { BillingContext } from "../context.ts";
import { createCallRate } from "./createCallRate.ts";
import { afterError } from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import { createOutcomeRecords, finishSending, startLease } from "./sendMeterEvent.ts";
import { listReadyStreams, listResumableStreams } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";

/** The most concurrent calls to Stripe. A slow one occupies one of them and delays no other. */
const MAXIMUM_RUNNING = 2000;

/** Stripe's limit in live mode. */
const CALLS_PER_SECOND = 1000;

/**
 * How long streams are gathered whose usage is sealed in one transaction, and outcomes that are recorded in one statement. A
 * statement costs more than what it says of one event.
 */
const gatherMs = () => 50;

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const PAUSE_MS = 60_000;
const MAXIMUM_PAUSED = 100_000;

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const SCAN_SHARE = 0.25;

export type SendObservers = {
  /** Called after each attempt. The id is null if nothing was sealed. */
  readonly onResult: (stream: Owner, result: SendResult, meterEventId: bigint | null) => void;
  /** Called when a stream's usage could not be sealed or an outcome could not be recorded, for a reason of its own. */
  readonly onFailure: (stream: Owner, error: unknown) => void;
};

type SenderOptions = SendObservers & {
  readonly scan: Scan<UnsentStream>;
  readonly maximumRunning?: number;
  readonly callsPerSecond?: number | undefined;
};

/** What the next step of a stream was: whether an attempt was made, and from which second on it may have more to send. */
type Step = { readonly isSent: boolean; readonly next: UnsentStream | null };

const NO_STEP: Step = { isSent: false, next: null };

/** Creates the steps of streams: each seals usage, and makes the attempt that begins. */
const createSteps = (
  context: BillingContext,
  { onResult, onFailure }: SendObservers,
  lowerRate: () => void,
) => {
  const sending = { ...context, record: createOutcomeRecords(context, gatherMs) };
  const seal = async (streams: readonly UnsentStream[]) => {
    const started = startLease(context);
    const sealings = await sealMeterEvents(context, streams, started.at);
    return sealings.map((sealing) => ({ sealing, started }));
  };
  /** The steps of live and of test usage are joined apart, so that live usage never waits behind test usage. */
  const createBeginning = () => joinCalls(seal, { collectMs: gatherMs });
  const begin = { live: createBeginning(), test: createBeginning() };
  const paused = new LRUCache<string, true>({ max: MAXIMUM_PAUSED, ttl: PAUSE_MS });

  const pause = (stream: Owner) => paused.set(ownerKey(stream), true);

  const makeStep = async (stream: UnsentStream, signal: AbortSignal): Promise<Step> => {
    const { sealing, started } = await begin[stream.mode](stream);
    if (sealing.kind === "more") {
      return { isSent: false, next: sealing.stream };
    }
    if (sealing.kind === "waits") {
      onResult(stream, sealing.delay, null);
      pause(stream);
    }
    if (sealing.kind !== "event") {
      return NO_STEP;
    }
    const { event } = sealing;
    const result = await finishSending(sending, event, { started, signal }).catch(
      async (error: unknown) => {
        onFailure(event, error);
        // The next attempt would probably fail, too, so the event waits. If this fails, the lease expires.
        const outcome = { event, result: afterError(error), now: context.clock.now() };
        await sending.record(outcome).catch(() => undefined);
      },
    );
    if (result) {
      onResult(event, result, event.id);
    }
    if (result?.kind === "delayed" && result.cause === "rate_limited") {
      lowerRate();
    }
    const isBehind = event.second < lastSealableSecond(context.clock.now());
    const next = { ...stream, firstSecond: event.second, hasUnsent: false };
    return { isSent: true, next: result?.kind === "settled" && isBehind ? next : null };
  };

  return {
    isPaused: (stream: Owner): boolean => paused.has(ownerKey(stream)),
    makeStep: (stream: UnsentStream, signal: AbortSignal): Promise<Step> =>
      makeStep(stream, signal).catch((error: unknown) => {
        if (!isContentError(error)) {
          throw error;
        }
        onFailure(stream, error);
        pause(stream);
        return NO_STEP;
      }),
  };
};

/**
 * Creates the sending of usage. It works on many streams at the same time, and on each until nothing is ready or its event has
 * to wait with its own delay. What streams seal and record at the same time is one statement. Usage is billed once because of
 * what is committed before each step:
 * 1. A call is made only if its event is committed with its identifier, and its attempt with its lease. It does not leave after
 *    the lease.
 * 2. The outcome is recorded after the call, unless another attempt has begun. Without an outcome, the attempt after the
 *    lease sends the same identifier.
 *
 * What is kept in memory only saves queries. Everything that another process needs to continue is in the database.
 */
export const createUsageWork = (
  context: BillingContext,
  options: SenderOptions,
): Work<UnsentStream> => {
  const { scan, maximumRunning = MAXIMUM_RUNNING } = options;
  const rate = createCallRate(options.callsPerSecond ?? CALLS_PER_SECOND, maximumRunning);
  const { isPaused, makeStep } = createSteps(context, options, rate.lower);
  let scans = 0;

  return {
    scan: async () => {
      const found = await scan();
      scans += found === null ? 0 : 1;
      return found && found.filter((stream) => !isPaused(stream));
    },
    keyOf: ownerKey,
    // Live usage takes turns: each event may need a call to Stripe.
    loop: async (found, { mayBegin, signal }) => {
      const turns = found.mode === "live" && context.billing.stripe !== null ? rate : null;
      const mayStep = async (): Promise<boolean> =>
        mayBegin() && (turns === null || (await turns.take()));
      let stream: UnsentStream | null = found;
      while (stream !== null && (await mayStep())) {
        const scansBefore = scans;
        let step = NO_STEP;
        try {
          step = await makeStep(stream, signal);
        } finally {
          turns?.giveBack(step.isSent);
        }
        // Older usage may have come since then, such as a refund. It is looked for after each scan.
        stream = step.next && scans > scansBefore ? { ...step.next, firstSecond: 0 } : step.next;
      }
    },
    onEnd: rate.end,
  };
};

/**
 * Creates the scan for streams with something to send: usage that may be sealed, or an event that may be attempted. Each steps
 * through one index. One scan for both would read the rows that are done in one index again for each stream of the other, as long
 * as an open snapshot keeps them.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createStreamScan = (
  { db, clock }: Context,
  monotonicMs?: () => number,
): Scan<UnsentStream> => {
  const options = { share: SCAN_SHARE, monotonicMs };
  const scans = [
    createScan<UnsentStream>(
      clock,
      (page) => listReadyStreams(db, { ...page, lastSecond: lastSealableSecond(page.now) }),
      options,
    ),
    createScan<UnsentStream>(clock, (page) => listResumableStreams(db, page), options),
  ];
  return async () => {
    const found = await Promise.all(scans.map((scan) => scan()));
    const pages = found.filter((streams) => streams !== null);
    return pages.length === 0 ? null : pages.flat();
  };
};

export const createReportingRuns = (
  context: BillingContext,
  { runMs, ...options }: Omit<SenderOptions, "scan"> & { readonly runMs?: number },
): Runs => {
  const work = createUsageWork(context, { ...options, scan: createStreamScan(context) });
  return createRuns(context, { kind: "usage-sender", work, runMs });
};
