import type { DatabasePool } from "slonik";
import { ownerKey } from "../../records/owner.rules.ts";
import type { MinuteEvent } from "./minuteUsage.sql.ts";
import { listMinuteEvents } from "./minuteUsage.sql.ts";
import type { AcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import { readAcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import { unhurriedPace, openBulkPool } from "../../../db/createBulkPace.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import { MAXIMUM_DIFFERENCES } from "./reconciliations.sql.ts";
import type { MinuteSums, ReportedStream, StreamTotals } from "./reportedStreams.sql.ts";
import { sumMeterEventsByMinute } from "./reportedStreams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import type { Span } from "../usage.rules.ts";
import { isProcessorUnusable, LONGEST_USAGE_LAG_MS, UsageUnreadableError } from "../processor.ts";
import type { BillingProcessor } from "../processor.ts";
import { getProcessor } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";
import type { Difference, Sums } from "./findDifferences.ts";
import { runConcurrently } from "../../../runtime/runConcurrently.ts";
import { correctClock } from "../readDatabaseTime.ts";
import {
  acknowledgedIn,
  DAY,
  explainDifferences,
  findDifferences,
  MINUTE,
  sumIn,
} from "./findDifferences.ts";
import { sumStreams, sumUnsealed } from "./sumOwnUsage.ts";

/** The longest monthly cycle, and the days in which Stripe still accepts a correction. */
const DEFAULT_SPAN = 35 * DAY;
const LAG = LONGEST_USAGE_LAG_MS / 1000;

/** A difference with the meter events and registrations of its minute. */
export type NamedDifference<Found = Difference> = Found & {
  readonly events: readonly MinuteEvent[];
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
  /** The part of the drift that operators have acknowledged. */
  readonly acknowledged: number;
  /** The first minutes that differ and are not acknowledged, at most MAXIMUM_DIFFERENCES. */
  readonly differences: readonly NamedDifference[];
  readonly error: string | null;
  /** Whether reading the processor's sum may succeed later. */
  readonly errorIsTemporary: boolean;
  /** Whether that is because the processor cannot be used. */
  readonly isUnavailable: boolean;
};

/** Of the processor's sums, far below its rate limits. */
export const CONCURRENT_READS = 4;

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

/** Returns which stream it is, without sums. */
const streamOf = ({
  processor,
  mode,
  kind,
  customerId,
  accountIds,
  accountName,
}: ReportedStream): ReportedStream => ({
  processor,
  mode,
  kind,
  customerId,
  accountIds,
  accountName,
});

/**
 * Returns the part of a span from which this deployment's usage is at a processor. What a copy's Stripe streams have from
 * before its separation was sent by the original, through the original's account.
 */
const ownSpanOf = (
  { processor }: Pick<ReportedStream, "processor">,
  { start, end }: Span,
  separatedAt: Date | null,
): Span => {
  if (processor !== "stripe" || separatedAt === null) {
    return { start, end };
  }
  const firstMinute = minuteOf(secondOf(separatedAt)).end;
  return { start: Math.min(end, Math.max(start, firstMinute)), end };
};

/** Returns a function that reads the processor's sum of a stream in a part of a span. */
export const createUsageReader = (
  processor: BillingProcessor,
  stream: ReportedStream,
  signal: AbortSignal,
): ((part: Span) => Promise<number>) => {
  const customer = {
    accountId: stream.accountIds[0],
    customerId: stream.customerId,
  };
  return (part) => processor.sumUsage(customer, stream.kind, part, signal);
};

type Comparison = {
  readonly stream: ReportedStream;
  readonly span: Span;
  /** Our sums, if they were read for all streams together. */
  readonly totals: StreamTotals | null;
  /** Units that are in no meter event yet. */
  readonly unsealed: number;
  readonly acknowledged: readonly AcknowledgedDrift[];
};

type OwnSums = Pick<StreamReport, "delivered" | "pending" | "failed">;

const readMinutes = async (
  { db }: BillingContext,
  { stream, span }: Comparison,
  recentAfter: Date,
): Promise<OwnSums & { readonly minutes: readonly MinuteSums[] }> => {
  const minutes = await sumMeterEventsByMinute(db, stream, span, recentAfter);
  return {
    minutes,
    delivered: sumIn(minutes, span),
    pending: minutes.reduce((sum, { unfinished }) => sum + unfinished, 0),
    failed: minutes.reduce((sum, { failed }) => sum + failed, 0),
  };
};

export const nameEvents = async <Found extends { readonly minute: number }>(
  db: DatabasePool,
  stream: ReportedStream,
  differences: readonly Found[],
): Promise<readonly NamedDifference<Found>[]> => {
  const named: NamedDifference<Found>[] = [];
  for (const difference of differences) {
    const events = await listMinuteEvents(db, stream, minuteOf(difference.minute));
    named.push({ ...difference, events });
  }
  return named;
};

const compareStream = async (
  context: BillingContext,
  comparison: Comparison,
  signal: AbortSignal,
): Promise<StreamReport> => {
  const { stream, span, totals, unsealed, acknowledged } = comparison;
  const processor = context.billing.findProcessor(stream.processor, stream.mode);
  const acknowledgedUnits = acknowledgedIn(acknowledged, span);
  const recentAfter = new Date(context.clock.now().getTime() - (processor?.usageLagMs ?? 0));
  const readOurs = () => readMinutes(context, comparison, recentAfter);
  const report = (
    { delivered, pending, failed }: OwnSums,
    processorQuantity: number | null,
    differences: readonly NamedDifference[] = [],
  ): StreamReport => ({
    ...streamOf(stream),
    delivered,
    pending: pending + unsealed,
    failed,
    processorQuantity,
    drift: processorQuantity === null ? null : processorQuantity - delivered,
    acknowledged: acknowledgedUnits,
    differences,
    error: null,
    errorIsTemporary: false,
    isUnavailable: false,
  });
  const initial = totals ?? (await readOurs());
  try {
    const readTheirs = createUsageReader(
      getProcessor(context.billing, stream.processor, stream.mode),
      stream,
      signal,
    );
    const quantity = await readTheirs(span);
    if (quantity === initial.delivered + acknowledgedUnits) {
      return report(initial, quantity);
    }
    // The sums of all streams are read first, so these may be minutes old.
    const ours = await readOurs();
    const theirs = await readTheirs(span);
    if (theirs === ours.delivered + acknowledgedUnits) {
      return report(ours, theirs);
    }
    const sums = { minutes: ours.minutes, acknowledged, readTheirs };
    const found = await listDifferences(span, sums);
    const differences = found.every(({ mayLag }) => mayLag)
      ? found
      : explainDifferences(found, { ...sums, minutes: (await readOurs()).minutes });
    return report(ours, theirs, await nameEvents(context.db, stream, differences));
  } catch (cause) {
    signal.throwIfAborted();
    // One customer that is unknown to the processor must not hide the drift of the others.
    return {
      ...report(initial, null),
      error: cause instanceof Error ? cause.message : String(cause),
      errorIsTemporary: !(cause instanceof UsageUnreadableError),
      isUnavailable: isProcessorUnusable(cause),
    };
  }
};

/** Lag alone needs no attention, unless the list of differences is full: it may lack others. */
const needsAttention = ({ drift, acknowledged, differences }: StreamReport): boolean =>
  drift !== acknowledged &&
  (differences.length === 0 ||
    differences.length === MAXIMUM_DIFFERENCES ||
    differences.some(({ mayLag }) => !mayLag));

/** Returns the streams that differ from the processor, or could not be compared. */
export const listStreamsNeedingAttention = (
  streams: readonly StreamReport[],
): readonly StreamReport[] => streams.filter(needsAttention);

/**
 * Compares the processor's usage with what was delivered, stream by stream, and corrects nothing. Differences that add up
 * to zero within the span are not found.
 * @param options.among compares only these streams
 * @param options.accountId compares only the streams of this account
 */
export const reconcileUsage = async (
  { pace = unhurriedPace, ...given }: BillingContext & { readonly pace?: BulkPace | undefined },
  {
    accountId = null,
    among = null,
    span: givenSpan = null,
  }: {
    readonly accountId?: string | null;
    readonly among?: readonly ReportedStream[] | null;
    readonly span?: Span | null;
  },
  signal: AbortSignal,
): Promise<{ readonly streams: readonly StreamReport[] }> => {
  const clock = await correctClock(given.db, given.clock);
  const context = { ...given, clock, db: openBulkPool(given.db, pace) };
  const span = givenSpan ?? defaultSpan(clock.now());
  const acknowledgedOf = await readAcknowledgedDrift(context.db, span);
  const { separatedAt } = await readDeployment(context.db);
  const atStripe = ownSpanOf({ processor: "stripe" }, span, separatedAt);
  const readUnsealed = (accountIds: readonly string[] | null) =>
    sumUnsealed(context.db, pace, span, accountIds);
  // Before the events, so that what is sealed in between is counted twice and not left out.
  const unsealedOfAll = accountId === null ? await readUnsealed(null) : null;
  const totals =
    among === null ? await sumStreams(context.db, pace, span, { atStripe, accountId }) : null;
  const selected = among ?? totals ?? [];
  // A customer of the account can have belonged to other accounts as well.
  const accountIds = [...new Set(selected.flatMap((stream) => stream.accountIds))];
  const unsealed = new Map(
    (unsealedOfAll ?? (await readUnsealed(accountIds))).map((each) => [
      ownerKey(each),
      each.quantity,
    ]),
  );
  const comparisons = selected.map((stream, index): Comparison => ({
    stream,
    span: ownSpanOf(stream, span, separatedAt),
    totals: totals?.[index] ?? null,
    unsealed: stream.accountIds.reduce(
      (sum, id) => sum + (unsealed.get(ownerKey({ ...stream, accountId: id })) ?? 0),
      0,
    ),
    acknowledged: acknowledgedOf(stream),
  }));
  const streams = await runConcurrently(
    comparisons,
    (comparison) => compareStream(context, comparison, signal),
    { concurrency: CONCURRENT_READS, signal },
  );
  return { streams };
};
