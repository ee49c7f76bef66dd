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

/** The longest billing cycle, and the days in which the processor still takes a correction. */
const DEFAULT_SPAN = 35 * DAY;
const LAG = LONGEST_USAGE_LAG_MS / 1000;

/** A half-open span of unix seconds, both ends on a whole minute. */
export type Span = { readonly start: number; readonly end: number };

/** A minute in which the processor's sum is not ours. */
type Difference = {
  readonly minute: number;
  readonly ours: number;
  readonly processor: number;
  /** Whether what was delivered lately, and may not be in the processor's sums yet, can explain it. */
  readonly mayLag: boolean;
};

/** One stream's books, in units. */
export type StreamReport = ReportedStream & {
  readonly delivered: number;
  /** Not in a settled event yet, so not part of the comparison. */
  readonly pending: number;
  /** In events that failed for good and wait for a person. */
  readonly failed: number;
  /** Null when the processor could not be asked, for which `fault` has the reason. */
  readonly processorQuantity: number | null;
  /** The processor's sum less what was delivered: 0 when both agree, null when it could not be asked. */
  readonly drift: number | null;
  /** The first minutes in which the sums differ. */
  readonly differences: readonly Difference[];
  readonly fault: string | null;
};

export type UsageReport = { readonly span: Span; readonly streams: readonly StreamReport[] };

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

/** Whether the processor's sum of a minute is ours, less some of what was delivered lately. */
const canBeLag = (
  ours: number,
  theirs: number,
  { recentlyAdded, recentlyRefunded }: MinuteSums,
): boolean => theirs >= ours - recentlyAdded && theirs <= ours - recentlyRefunded;

type Books = {
  readonly minutes: readonly MinuteSums[];
  readonly theirs: (part: Span) => Promise<number>;
};

/** The minutes of a span in which the sums differ, narrowed down by ever smaller parts. */
async function* findDifferences(
  span: Span,
  books: Books,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<Difference, void, void> {
  for (const part of split(span, step)) {
    const [ours, processor] = [sumIn(books.minutes, part), await books.theirs(part)];
    if (ours !== processor && finerSteps.length === 0) {
      const minute = books.minutes.find((own) => own.minute === part.start);
      const mayLag = minute !== undefined && canBeLag(ours, processor, minute);
      yield { minute: part.start, ours, processor, mayLag };
    } else if (ours !== processor) {
      yield* findDifferences(part, books, finerSteps);
    }
  }
}

/** Where there are more, a person sees from these what is wrong; each costs calls to the processor. */
const MAXIMUM_DIFFERENCES = 20;

const listDifferences = async (span: Span, books: Books): Promise<readonly Difference[]> => {
  const found: Difference[] = [];
  for await (const difference of findDifferences(span, books)) {
    found.push(difference);
    if (found.length === MAXIMUM_DIFFERENCES) {
      break;
    }
  }
  return found;
};

/** The window that a reconciliation covers when none is named. */
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

/** The processor's own sums in parts of the span. */
const createUsageReader = (
  processor: BillingProcessor | null,
  stream: ReportedStream,
  signal: AbortSignal,
): ((part: Span) => Promise<number>) => {
  if (!processor) {
    throw new Error(`Usage was reported to ${stream.processor}, which is not set up.`);
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
    const usageIn = createUsageReader(processor, stream, signal);
    const processorQuantity = await usageIn(span);
    const drift = processorQuantity - delivered;
    const differences =
      drift === 0 ? [] : await listDifferences(span, { minutes, theirs: usageIn });
    return { ...ours, processorQuantity, drift, differences, fault: null };
  } catch (error) {
    signal.throwIfAborted();
    // One customer that the processor does not know must not hide the drift of all others.
    const fault = error instanceof Error ? error.message : String(error);
    return { ...ours, processorQuantity: null, drift: null, differences: [], fault };
  }
};

const isSameStream = (one: ReportedStream, other: ReportedStream): boolean =>
  one.accountId === other.accountId &&
  one.mode === other.mode &&
  one.meter === other.meter &&
  one.processor === other.processor &&
  one.customerId === other.customerId;

/**
 * Whether a person must look at a stream; not where the processor's sums may just lag behind. Behind as many differences
 * as are looked for there may be others.
 */
const isSuspicious = ({ drift, differences }: StreamReport): boolean =>
  drift !== 0 &&
  (differences.length === 0 ||
    differences.length === MAXIMUM_DIFFERENCES ||
    differences.some(({ mayLag }) => !mayLag));

/** The streams that a person must look at; where others are named, only such as are among them. */
export const listStreamsNeedingAttention = (
  streams: readonly StreamReport[],
  among: readonly ReportedStream[] | null = null,
): readonly StreamReport[] =>
  streams.filter(
    (stream) =>
      isSuspicious(stream) && (among?.some((other) => isSameStream(other, stream)) ?? true),
  );

/**
 * Compares the processor's usage with what was delivered to it, stream by stream; it corrects nothing. Differences that
 * cancel each other out within the span do not show.
 */
export const reconcileUsage = async (
  deps: Dependencies,
  {
    accountId = null,
    span = defaultSpan(deps.clock.now()),
  }: { readonly accountId?: string | null; readonly span?: Span },
  signal: AbortSignal,
): Promise<UsageReport> => {
  const unsealed = await sumUnsealedUsage(deps.db, span, accountId);
  const streams: StreamReport[] = [];
  for (const stream of await listReportedStreams(deps.db, span, accountId)) {
    signal.throwIfAborted();
    const waiting = unsealed.find(
      ({ accountId: id, mode, meter }) =>
        id === stream.accountId && mode === stream.mode && meter === stream.meter,
    );
    streams.push(await compareStream(deps, stream, span, waiting?.quantity ?? 0, signal));
  }
  return { span, streams };
};
