import type { DatabasePool } from "slonik";
import type { MinuteSums, ReportedStream } from "../../db/billing/meterEventReports.ts";
import { listReportedStreams, sumMeterEventsByMinute } from "../../db/billing/meterEventReports.ts";
import { sumUnsealedUsage } from "../../db/billing/usageFacts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { LONGEST_USAGE_LAG_MS } from "../../providers/billing/processor.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The longest monthly cycle, and the days in which Stripe still accepts a correction. */
const DEFAULT_SPAN = 35 * DAY;
const LAG = LONGEST_USAGE_LAG_MS / 1000;

/** A half-open span of unix seconds. Both ends are whole minutes. */
export type Span = { readonly start: number; readonly end: number };

/** A minute in which the processor's sum differs from what was delivered. `minute` is its first unix second. */
type Difference = {
  readonly minute: number;
  readonly ours: number;
  readonly processor: number;
  /** Whether recent deliveries, which the processor's sums may not contain yet, can explain it. */
  readonly mayLag: boolean;
};

/** The sums of one stream, in units. */
export type StreamReport = ReportedStream & {
  readonly delivered: number;
  /** Not settled yet, so not compared. */
  readonly pending: number;
  /** In failed events, so not compared. */
  readonly failed: number;
  /** Null if the processor's sum could not be read; `error` has the reason. */
  readonly processorQuantity: number | null;
  /** The processor's sum minus what was delivered, or null. */
  readonly drift: number | null;
  /** The first minutes that differ, at most MAXIMUM_DIFFERENCES. */
  readonly differences: readonly Difference[];
  readonly error: string | null;
};

const STEPS = [DAY, HOUR, MINUTE] as const;

const split = ({ start, end }: Span, step: number): readonly Span[] => {
  const firstBoundary = Math.floor(start / step) * step + step;
  const starts = [start];
  for (let boundary = firstBoundary; boundary < end; boundary += step) {
    starts.push(boundary);
  }
  return starts.map((from, index) => ({ start: from, end: starts[index + 1] ?? end }));
};

const sumIn = (minutes: readonly MinuteSums[], { start, end }: Span): number =>
  minutes.reduce(
    (sum, { minute, delivered }) => (minute >= start && minute < end ? sum + delivered : sum),
    0,
  );

/** Returns whether the processor's sum lacks only usage and refunds that were delivered recently. */
const canBeLag = (
  ours: number,
  theirs: number,
  { recentlyAdded, recentlyRefunded }: MinuteSums,
): boolean => theirs >= ours - recentlyAdded && theirs <= ours - recentlyRefunded;

/** Our sums, and a way to read the processor's. */
type Sums = {
  readonly minutes: readonly MinuteSums[];
  readonly readTheirs: (part: Span) => Promise<number>;
};

/** Finds the minutes that differ by comparing days, then the hours of differing days, then their minutes. */
async function* findDifferences(
  span: Span,
  sums: Sums,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<Difference, void, void> {
  for (const part of split(span, step)) {
    const [ours, processor] = [sumIn(sums.minutes, part), await sums.readTheirs(part)];
    if (ours !== processor && finerSteps.length === 0) {
      const minute = sums.minutes.find((own) => own.minute === part.start);
      const mayLag = minute !== undefined && canBeLag(ours, processor, minute);
      yield { minute: part.start, ours, processor, mayLag };
    } else if (ours !== processor) {
      yield* findDifferences(part, sums, finerSteps);
    }
  }
}

/** Enough to see what is wrong. Each difference costs calls to the processor. */
const MAXIMUM_DIFFERENCES = 20;

const listDifferences = async (span: Span, sums: Sums): Promise<readonly Difference[]> => {
  const found: Difference[] = [];
  for await (const difference of findDifferences(span, sums)) {
    found.push(difference);
    if (found.length === MAXIMUM_DIFFERENCES) {
      break;
    }
  }
  return found;
};

/** Returns the span of a reconciliation for which none is given. */
export const defaultSpan = (now: Date): Span => {
  const end = Math.floor(now.getTime() / 1000) - LAG;
  const lastMinute = end - (end % MINUTE);
  return { start: lastMinute - DEFAULT_SPAN, end: lastMinute };
};

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

const createUsageReader = (
  processor: BillingProcessor | null,
  stream: ReportedStream,
  signal: AbortSignal,
): ((part: Span) => Promise<number>) => {
  if (!processor) {
    throw new Error(`Usage was reported to ${stream.processor}, which is not configured.`);
  }
  return (part) =>
    processor.sumUsage({ ...stream, subscriptionId: null }, stream.meter, part, signal);
};

const compareStream = async (
  deps: Dependencies,
  stream: ReportedStream,
  span: Span,
  unsealedQuantity: number,
  signal: AbortSignal,
): Promise<StreamReport> => {
  const processor = deps.billing.findProcessor(stream.processor, stream.mode);
  const recentAfter = new Date(deps.clock.now().getTime() - (processor?.usageLagMs ?? 0));
  const minutes = await sumMeterEventsByMinute(deps.db, stream, span, recentAfter);
  const delivered = sumIn(minutes, span);
  const ours = {
    ...stream,
    delivered,
    pending: minutes.reduce((sum, { unfinished }) => sum + unfinished, unsealedQuantity),
    failed: minutes.reduce((sum, { failed }) => sum + failed, 0),
  };
  try {
    const readTheirs = createUsageReader(processor, stream, signal);
    const processorQuantity = await readTheirs(span);
    const drift = processorQuantity - delivered;
    const differences = drift === 0 ? [] : await listDifferences(span, { minutes, readTheirs });
    return { ...ours, processorQuantity, drift, differences, error: null };
  } catch (cause) {
    signal.throwIfAborted();
    // One customer that is unknown to the processor must not hide the drift of the others.
    const error = cause instanceof Error ? cause.message : String(cause);
    return { ...ours, processorQuantity: null, drift: null, differences: [], error };
  }
};

const isSameStream = (one: ReportedStream, other: ReportedStream): boolean =>
  one.accountId === other.accountId &&
  one.mode === other.mode &&
  one.meter === other.meter &&
  one.processor === other.processor &&
  one.customerId === other.customerId;

/** Lag alone needs no attention, unless the list of differences is full: it may lack others. */
const needsAttention = ({ drift, differences }: StreamReport): boolean =>
  drift !== 0 &&
  (differences.length === 0 ||
    differences.length === MAXIMUM_DIFFERENCES ||
    differences.some(({ mayLag }) => !mayLag));

/**
 * Returns the streams that differ from the processor, or could not be compared.
 * @param among if given, only these streams are returned
 */
export const listStreamsNeedingAttention = (
  streams: readonly StreamReport[],
  among: readonly ReportedStream[] | null = null,
): readonly StreamReport[] =>
  streams.filter(
    (stream) =>
      needsAttention(stream) && (among?.some((other) => isSameStream(other, stream)) ?? true),
  );

/**
 * Compares the processor's usage with what was delivered, stream by stream, and corrects nothing. Differences that add
 * up to zero within the span are not found.
 */
export const reconcileUsage = async (
  deps: Dependencies,
  {
    accountId = null,
    span = defaultSpan(deps.clock.now()),
  }: { readonly accountId?: string | null; readonly span?: Span },
  signal: AbortSignal,
): Promise<{ readonly streams: readonly StreamReport[] }> => {
  const unsealed = await sumUnsealedUsage(deps.db, span, accountId);
  const streams: StreamReport[] = [];
  for (const stream of await listReportedStreams(deps.db, span, accountId)) {
    signal.throwIfAborted();
    const own = unsealed.find(
      ({ accountId: id, mode, meter }) =>
        id === stream.accountId && mode === stream.mode && meter === stream.meter,
    );
    streams.push(await compareStream(deps, stream, span, own?.quantity ?? 0, signal));
  }
  return { streams };
};
