import type { CommonQueryMethods } from "slonik";
import type { BillingContext, BulkContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { readDeployment } from "../deployment.sql.ts";
import { insertReconciliation } from "./reconciliations.sql.ts";
import { replaceOpenDifferences } from "./differences.sql.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { isProcessorUnusable, UsageUnreadableError } from "../processor.ts";
import { LONGEST_USAGE_LAG_MS } from "../usage.rules.ts";
import { correctClock } from "../readDatabaseTime.ts";
import { compareMinute } from "./minutes.rules.ts";
import { listEventsOfSpan, listStripeStreams, sumDeliveredUnits } from "./minutes.sql.ts";
import type { CustomerStream, ReportedStream } from "./minutes.sql.ts";
import type { FoundUnits } from "./differences.sql.ts";
import { lockStreams } from "../streams.sql.ts";
import { minuteOf, splitAt } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { runConcurrently } from "../../../runtime/runConcurrently.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const STEPS = [DAY, HOUR, MINUTE] as const;

const split = (span: Span, step: number): readonly Span[] => {
  const first = Math.floor(span.start / step) * step;
  const boundaries = Math.ceil((span.end - first) / step);
  return splitAt(
    span,
    Array.from({ length: boundaries }, (_, index) => first + index * step),
  );
};

/** The units of a stream in a part of a span: what was delivered, and what the processor has. */
type Sums = { readonly ours: number; readonly theirs: number };

/**
 * Finds the differing minutes of a span of whole minutes, and what the processor has of them: compares days, then the hours of
 * differing days, then minutes. Differences that add up to zero within a day, or an hour, are not found.
 */
async function* findDifferences(
  span: Span,
  readSums: (part: Span) => Promise<Sums>,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<{ readonly minute: Span; readonly theirs: number }, void, void> {
  for (const part of split(span, step)) {
    const { ours, theirs } = await readSums(part);
    if (ours !== theirs) {
      if (finerSteps.length === 0) {
        yield { minute: part, theirs };
      } else {
        yield* findDifferences(part, readSums, finerSteps);
      }
    }
  }
}

/** The longest monthly cycle, and the days in which Stripe still accepts a correction. */
const DEFAULT_SPAN = 35 * DAY;
const LAG = LONGEST_USAGE_LAG_MS / 1000;

/** Far below the rate limits of Stripe's sums. */
const CONCURRENT_READS = 4;

/** The most differences that are looked for in a stream. Each of them costs calls to Stripe. */
const MAXIMUM_DIFFERENCES = 20;

/** A minute in which Stripe's sum differs from what was delivered. */
type MinuteDifference = FoundUnits & {
  /** What Stripe has of the minute. */
  readonly theirs: number;
  /** Whether what is being sent, or was delivered just before, can explain it. */
  readonly mayLag: boolean;
  /** The events that may explain it: it is not known yet whether Stripe has them. */
  readonly askedIds: readonly bigint[];
};

/** What was delivered of a stream in a span, and what Stripe has of it. */
export type StreamReport = ReportedStream & {
  readonly delivered: number;
  /** Null if it could not be read; `error` has the reason. */
  readonly processorQuantity: number | null;
  /** The first minutes that differ, at most MAXIMUM_DIFFERENCES. */
  readonly differences: readonly MinuteDifference[];
  readonly error: string | null;
  /** Whether reading it may succeed later. */
  readonly isErrorTemporary: boolean;
};

/** Returns the span of a reconciliation for which none is given. */
export const defaultSpan = (now: Date): Span => {
  const { start: end } = minuteOf(secondOf(now) - LAG);
  return { start: end - DEFAULT_SPAN, end };
};

const readDifference = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  reported: ReportedStream,
  minute: Span,
  theirs: number,
): Promise<MinuteDifference | null> => {
  const events = await listEventsOfSpan(db, reported, minute);
  const { units, obstacle, askedIds } = compareMinute(events, theirs, clock.now());
  // Stripe may have lost one event. Then its second and account are known.
  const lost = events.find(({ state, quantity }) => state === "delivered" && quantity === -units);
  return units === 0
    ? null
    : {
        kind: reported.kind,
        customerId: reported.customerId,
        accountId: lost?.accountId ?? reported.accountId,
        second: lost?.second ?? minute.start,
        units,
        theirs,
        mayLag: obstacle !== null,
        askedIds,
      };
};

/** Sums what was delivered in a span. It is read in short steps, because a busy stream has an event in each second. */
const sumOurs = async (db: CommonQueryMethods, stream: CustomerStream, span: Span) => {
  let sum = 0;
  for (const day of split(span, DAY)) {
    sum += await sumDeliveredUnits(db, stream, day);
  }
  return sum;
};

const compareStream = async (
  context: BillingContext,
  reported: ReportedStream,
  span: Span,
  signal: AbortSignal,
): Promise<StreamReport> => {
  const { db, billing } = context;
  const delivered = await sumOurs(db, reported, span);
  const report = { ...reported, delivered, error: null, isErrorTemporary: false } as const;
  const differences: MinuteDifference[] = [];
  if (span.start >= span.end) {
    return { ...report, processorQuantity: 0, differences };
  }
  try {
    const { sumUsage } = requireStripe(billing);
    const readTheirs = (part: Span) => sumUsage(reported.customerId, reported.kind, part, signal);
    const processorQuantity = await readTheirs(span);
    if (processorQuantity === delivered) {
      return { ...report, processorQuantity, differences };
    }
    const found = findDifferences(span, async (part) => ({
      ours: await sumOurs(db, reported, part),
      theirs: await readTheirs(part),
    }));
    for await (const { minute, theirs } of found) {
      const difference = await readDifference(context, reported, minute, theirs);
      if (difference !== null) {
        differences.push(difference);
      }
      if (differences.length === MAXIMUM_DIFFERENCES) {
        break;
      }
    }
    return { ...report, processorQuantity, differences };
  } catch (cause) {
    signal.throwIfAborted();
    // One customer that Stripe does not know must not hide the differences of the others.
    return {
      ...report,
      processorQuantity: null,
      differences: [],
      error: cause instanceof Error ? cause.message : String(cause),
      isErrorTemporary: isProcessorUnusable(cause) || !(cause instanceof UsageUnreadableError),
    };
  }
};

/** Returns the minutes of streams that a decision has to explain: neither lag nor usage that is asked about does. */
const listUnexplained = ({
  differences,
}: Pick<StreamReport, "differences">): readonly MinuteDifference[] =>
  differences.filter(({ mayLag, askedIds }) => !mayLag && askedIds.length === 0);

/**
 * Returns the unexplained minutes of a stream that are unexplained now, too. Since Stripe was asked, which takes long, usage may
 * have been delivered, or a difference decided. Must run under the locks of their streams.
 */
const listStillUnexplained = async (
  context: Parameters<typeof readDifference>[0],
  stream: StreamReport,
): Promise<readonly MinuteDifference[]> => {
  const still: MinuteDifference[] = [];
  for (const found of listUnexplained(stream)) {
    const now = await readDifference(context, stream, minuteOf(found.second), found.theirs);
    if (now?.units === found.units && listUnexplained({ differences: [now] }).length > 0) {
      still.push(found);
    }
  }
  return still;
};

/**
 * Returns the streams that differ unexplained, or could not be compared. After very many differences, others may follow. A
 * customer that Stripe does not know, such as one that an operator had mistyped, needs nothing unless usage was delivered to it.
 */
export const listStreamsNeedingAttention = (
  streams: readonly StreamReport[],
): readonly StreamReport[] =>
  streams.filter((stream) =>
    stream.error === null
      ? stream.differences.length === MAXIMUM_DIFFERENCES || listUnexplained(stream).length > 0
      : stream.isErrorTemporary || stream.delivered !== 0,
  );

const failureOf = (drifting: readonly StreamReport[]): string | null => {
  const unread = drifting.filter(({ isErrorTemporary }) => isErrorTemporary);
  return unread.length === 0
    ? null
    : `${counted(unread.length, "stream")} could not be read, such as ${unread[0]?.accountName}: ${unread[0]?.error}`;
};

/** Returns the part of a span in which a stream was compared: with very many differences, up to the last one that was found. */
const comparedSpan = ({ differences }: StreamReport, { start, end }: Span): Span => ({
  start,
  end: differences.length < MAXIMUM_DIFFERENCES ? end : (differences.at(-1)?.second ?? end),
});

/**
 * Compares Stripe's usage with what was delivered, stream by stream, and stores what no event explains as open differences. It
 * can be repeated. The built-in ledger is our own table, so there is nothing to compare. Differences that add up to zero within
 * the span are not found.
 * @returns the streams, those of them that differ or could not be read, and why it does not count as a success: the processor may
 *   be down or not configured
 * @param options.accountId compares only the streams of this account; null for all
 * @param options.span null for the default one, which ends where the sums can no longer lag. Only a reconciliation of all accounts
 *   in that is stored
 */
export const reconcileUsage = async (
  { bulkDb, ...given }: BillingContext & BulkContext,
  {
    accountId = null,
    span: givenSpan = null,
  }: { readonly accountId?: string | null; readonly span?: Span | null },
  signal: AbortSignal,
) => {
  const clock = await correctClock(given.db, given.clock);
  const context = { ...given, clock, db: bulkDb ?? given.db };
  const startedAt = clock.now();
  const { separatedAt, processor } = await readDeployment(context.db);
  const { start, end } = givenSpan ?? defaultSpan(startedAt);
  // What a copy has from before its separation was sent by the original, through the original's account.
  const firstOwn = separatedAt === null ? start : minuteOf(secondOf(separatedAt)).end;
  const span = { start: Math.min(end, Math.max(start, firstOwn)), end };
  const compared =
    processor?.name === "stripe" ? await listStripeStreams(context.db, accountId) : [];
  const streams = await runConcurrently(
    compared,
    (stream) => compareStream(context, stream, span, signal),
    { concurrency: CONCURRENT_READS, signal },
  );
  const drifting = listStreamsNeedingAttention(streams);
  const failure = failureOf(drifting);
  await given.db.transaction(async (transaction) => {
    await lockStreams(
      transaction,
      streams
        .flatMap(listUnexplained)
        .map(({ accountId: id, kind }) => ({ accountId: id, mode: "live", kind })),
    );
    for (const stream of streams.filter(({ error }) => error === null)) {
      const part = comparedSpan(stream, span);
      const found = await listStillUnexplained({ db: transaction, clock }, stream);
      await replaceOpenDifferences(transaction, stream, part, found, startedAt);
    }
    if (accountId === null && givenSpan === null) {
      await insertReconciliation(transaction, {
        startedAt,
        endedAt: clock.now(),
        streams: streams.length,
        unreadable: drifting.flatMap(({ kind, customerId, accountIds, accountName, error }) =>
          error === null ? [] : [{ kind, customerId, accountIds, accountName, error }],
        ),
        error: failure,
      });
    }
  });
  return { span, streams, drifting, failure };
};
