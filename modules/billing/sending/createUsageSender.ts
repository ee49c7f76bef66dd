import { createRuns } from "../../../db/createRuns.ts";
import type { RunOptions, Runs, Work } from "../../../db/createRuns.ts";
import { createScan } from "../../../db/createScan.ts";
import type { Scan } from "../../../db/createScan.ts";
import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { isContentError } from "../../../db/databaseErrors.ts";
import { ownerKey } from "../../records/owner.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import type { BillingContext } from "../context.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { recordOutcomes } from "./attempts.sql.ts";
import { createCallRate } from "./createCallRate.ts";
import { afterError } from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { sealMeterEvents } from "./sealMeterEvents.ts";
import { finishSending, startLease } from "./sendMeterEvent.ts";
import type { LeaseStart, RecordOutcome } from "./sendMeterEvent.ts";
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

/** The most streams that one transaction seals, so that the first calls need not wait for the last stream. */
const MAXIMUM_SEALED = 500;

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const PAUSE_MS = 60_000;

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const SCAN_SHARE = 0.25;

const streamOf = ({ accountId, mode, kind }: Owner): Owner => ({ accountId, mode, kind });

/** Creates the records of attempts: those of the same time are made in one statement. */
export const createOutcomeRecords = (
  { db }: Pick<BillingContext, "db">,
  collectMs?: () => number,
): RecordOutcome =>
  joinCalls(async (outcomes) => {
    await recordOutcomes(db, outcomes);
    return outcomes.map(() => undefined);
  }, collectMs && { collectMs });

export type SendObservers = {
  /** Called after each attempt. The id is null if nothing was sealed. */
  readonly onResult: (stream: Owner, result: SendResult, meterEventId: bigint | null) => void;
  /** Called when a stream's usage could not be sealed or an outcome could not be recorded, for a reason of its own. */
  readonly onFailure: (stream: Owner, error: unknown) => void;
};

type SenderOptions = SendObservers & {
  readonly scan: Scan<UnsentStream>;
  readonly maximumRunning?: number;
  /** How many calls to Stripe are made in a second. */
  readonly callsPerSecond?: number | undefined;
};

/** Makes an attempt that has begun. After an error of ours the event waits, because the next attempt would probably fail, too. */
const makeAttempt = async (
  context: BillingContext & { readonly record: RecordOutcome },
  event: StoredMeterEvent,
  { started, signal }: { readonly started: LeaseStart; readonly signal: AbortSignal },
  { onResult, onFailure }: SendObservers,
): Promise<SendResult | null> => {
  try {
    const result = await finishSending(context, event, { started, signal });
    onResult(streamOf(event), result, event.id);
    return result;
  } catch (error) {
    onFailure(streamOf(event), error);
    const result = afterError(error);
    // If this fails too, the lease expires.
    await context.record({ event, result, now: context.clock.now() }).catch(() => undefined);
    return null;
  }
};

/** What the next step of a stream was: whether an attempt was made, and from which second on it may have more to send. */
type Step = {
  readonly isSent: boolean;
  readonly next: UnsentStream | null;
  /** Whether its usage cannot be sealed here. */
  readonly isMisconfigured?: boolean;
};

/** Creates the steps of streams: each seals usage, and makes the attempt that begins. */
const createSteps = (context: BillingContext, options: SenderOptions, lowerRate: () => void) => {
  const record = createOutcomeRecords(context, gatherMs);
  const createBeginning = () =>
    joinCalls(
      async (streams: readonly UnsentStream[]) => {
        const started = startLease(context);
        const sealings = await sealMeterEvents(context, streams, started.at);
        return sealings.map((sealing) => ({ sealing, started }));
      },
      { collectMs: gatherMs, maximumItems: MAXIMUM_SEALED },
    );
  /** Apart, so that live usage never waits behind test usage. */
  const begin = { live: createBeginning(), test: createBeginning() };
  return async (stream: UnsentStream, signal: AbortSignal): Promise<Step> => {
    const { sealing, started } = await begin[stream.mode](stream);
    if (sealing.kind === "event") {
      const { second } = sealing.event;
      const result = await makeAttempt(
        { ...context, record },
        sealing.event,
        { started, signal },
        options,
      );
      if (result?.kind === "delayed" && result.cause === "rate_limited") {
        lowerRate();
      }
      const isBehind = second < lastSealableSecond(context.clock.now());
      const next = { ...streamOf(stream), firstSecond: second };
      return { isSent: true, next: result?.kind === "settled" && isBehind ? next : null };
    }
    if (sealing.kind === "waits") {
      options.onResult(streamOf(stream), sealing.delay, null);
      return { isSent: false, next: null, isMisconfigured: true };
    }
    return { isSent: false, next: sealing.kind === "more" ? sealing.stream : null };
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
  const { scan, onFailure, maximumRunning = MAXIMUM_RUNNING } = options;
  const rate = createCallRate(options.callsPerSecond ?? CALLS_PER_SECOND, maximumRunning);
  const makeStep = createSteps(context, options, rate.lower);
  const paused = new Set<string>();
  let scans = 0;

  const pauseStream = (stream: Owner): void => {
    const key = ownerKey(stream);
    paused.add(key);
    setTimeout(() => paused.delete(key), PAUSE_MS).unref();
  };

  return {
    scan: async () => {
      const found = await scan();
      scans += found === null ? 0 : 1;
      return found && found.filter((stream) => !paused.has(ownerKey(stream)));
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
        let step: Step = { isSent: false, next: null };
        try {
          step = await makeStep(stream, signal);
        } catch (error) {
          if (!isContentError(error)) {
            throw error;
          }
          onFailure(streamOf(stream), error);
          pauseStream(stream);
        } finally {
          turns?.giveBack(step.isSent);
        }
        if (step.isMisconfigured === true) {
          pauseStream(stream);
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
    return found.every((streams) => streams === null)
      ? null
      : found.flatMap((streams) => streams ?? []);
  };
};

/** Creates the runs that report usage. */
export const createReportingRuns = (
  context: BillingContext,
  {
    runMs,
    ...options
  }: SendObservers & Pick<RunOptions<never>, "runMs"> & Pick<SenderOptions, "callsPerSecond">,
): Runs => {
  const work = createUsageWork(context, { ...options, scan: createStreamScan(context) });
  return createRuns(context, { kind: "usage-sender", work, runMs });
};
