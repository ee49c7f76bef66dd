import type { CommonQueryMethods } from "slonik";
import { counted } from "../../../runtime/counted.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { runConcurrently } from "../../../runtime/runConcurrently.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { readDeployment } from "../deployment.sql.ts";
import { UsageUnreadableError } from "../processor.ts";
import { correctClock } from "../readDatabaseTime.ts";
import { lockStreams } from "../streams.sql.ts";
import { LONGEST_USAGE_LAG_MS, minuteOf, splitAt } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { replaceOpenDifferences } from "./differences.sql.ts";
import type { FoundUnits } from "./differences.sql.ts";
import { compareMinute } from "./minutes.rules.ts";
import { listEventsOfSpan, listStripeStreams, sumDeliveredUnits } from "./minutes.sql.ts";
import type { ReportedStream } from "./minutes.sql.ts";
import { insertReconciliation } from "./reconciliations.sql.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const STEPS = [DAY, HOUR, MINUTE] as const;

/** The longest monthly cycle, and the days in which Stripe still accepts a correction. */
const DEFAULT_SPAN = 35 * DAY;
const LAG = LONGEST_USAGE_LAG_MS / 1000;

/** Far below the rate limits of Stripe's sums. */
const CONCURRENT_READS = 4;

/** The most differences that are looked for in a stream. Each of them costs calls to Stripe. */
const MAXIMUM_DIFFERENCES = 20;

const split = (span: Span, step: number): readonly Span[] => {
  const first = Math.floor(span.start / step) * step;
  const boundaries = Math.ceil((span.end - first) / step);
  const times = Array.from({ length: boundaries }, (_, index) => first + index * step);
  return splitAt(span, times);
};

/** What was delivered of a stream in a part of a span, and what the processor has of it. */
type Sums = { readonly part: Span; readonly ours: number; readonly theirs: number };

/**
 * Finds the differing minutes of a span of whole minutes: compares days, then the hours of differing days, then minutes.
 * Differences that add up to zero within a day, or an hour, are not found.
 */
async function* findDifferingMinutes(
  span: Span,
  readSums: (part: Span) => Promise<Sums>,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<Sums, void, void> {
  for (const part of split(span, step)) {
    const sums = await readSums(part);
    if (sums.ours !== sums.theirs) {
      if (finerSteps.length === 0) {
        yield sums;
      } else {
        yield* findDifferingMinutes(part, readSums, finerSteps);
      }
    }
  }
}

/** What was delivered of a stream in a span, and what Stripe has of it. */
export type StreamReport = ReportedStream & {
  readonly delivered: number;
  /** Null if it could not be read; `error` has the reason. */
  readonly processorQuantity: number | null;
  readonly error: string | null;
  /** Whether reading it may succeed later. */
  readonly isErrorTemporary: boolean;
  /** What no event explains in the first minutes that differ, at most MAXIMUM_DIFFERENCES. */
  readonly differences: readonly FoundUnits[];
  /** How many of these minutes may lag, or may be explained by an event of which it is not known yet whether Stripe has it. */
  readonly skipped: number;
};

/** Returns the span of a reconciliation for which none is given. */
export const defaultSpan = (now: Date): Span => {
  const { start: end } = minuteOf(secondOf(now) - LAG);
  return { start: end - DEFAULT_SPAN, end };
};

/** Sums what was delivered in a span. It is read in short steps, because a busy stream has an event in each second. */
const sumOurs = async (db: CommonQueryMethods, stream: ReportedStream, span: Span) => {
  let sum = 0;
  for (const day of split(span, DAY)) {
    sum += await sumDeliveredUnits(db, stream, day);
  }
  return sum;
};

/** Compares a stream. The minutes that differ are those when Stripe was asked, which takes long. */
const compareStream = async (
  { db, billing }: BillingContext,
  stream: ReportedStream,
  span: Span,
  signal: AbortSignal,
): Promise<Omit<StreamReport, "differences" | "skipped"> & { readonly minutes: Sums[] }> => {
  const { customerId, kind } = stream;
  const readTheirs = async (part: Span): Promise<number> =>
    part.start < part.end ? requireStripe(billing).sumUsage(customerId, kind, part, signal) : 0;
  const sums = { ...stream, delivered: await sumOurs(db, stream, span) };
  const minutes: Sums[] = [];
  try {
    const processorQuantity = await readTheirs(span);
    const differing = findDifferingMinutes(span, async (part) => ({
      part,
      ours: await sumOurs(db, stream, part),
      theirs: await readTheirs(part),
    }));
    if (processorQuantity !== sums.delivered) {
      for await (const minute of differing) {
        minutes.push(minute);
        if (minutes.length === MAXIMUM_DIFFERENCES) {
          break;
        }
      }
    }
    return { ...sums, processorQuantity, error: null, isErrorTemporary: false, minutes };
  } catch (cause) {
    signal.throwIfAborted();
    // One customer that Stripe does not know must not hide the differences of the others.
    const error = cause instanceof Error ? cause.message : String(cause);
    const isErrorTemporary = !(cause instanceof UsageUnreadableError);
    return { ...sums, processorQuantity: null, error, isErrorTemporary, minutes: [] };
  }
};

/**
 * Returns the units of a differing minute that a decision has to explain, if any: its sum may lag, also because it has changed
 * since Stripe was asked, or events that are asked about may explain it. Must run under the locks of the stream.
 */
const findUnexplained = async (
  db: CommonQueryMethods,
  stream: ReportedStream,
  { part, ours, theirs }: Sums,
  now: Date,
): Promise<readonly FoundUnits[]> => {
  const events = await listEventsOfSpan(db, stream, part);
  const { units, obstacle, asked } = compareMinute(events, theirs, now);
  if (obstacle !== null || asked.length > 0 || units !== theirs - ours) {
    return [];
  }
  // Stripe may have lost one event. Then its second and account are known.
  const lost = events.find(({ state, quantity }) => state === "delivered" && quantity === -units);
  const { accountId, second } = lost ?? { ...stream, second: part.start };
  return [{ accountId, second, units }];
};

/**
 * Returns the streams that differ unexplained, or could not be compared. After very many differences, others may follow. The
 * usage of a customer that Stripe does not know, such as a deleted one, can never be compared, so no operator is needed.
 */
export const listStreamsNeedingAttention = (streams: readonly StreamReport[]) =>
  streams.filter((stream) =>
    stream.error === null
      ? stream.differences.length > 0 || stream.skipped === MAXIMUM_DIFFERENCES
      : stream.isErrorTemporary,
  );

/**
 * Compares Stripe's usage with what was delivered, stream by stream, and stores what no event explains as open differences. The
 * built-in ledger is our own table, so there is nothing to compare. Differences that add up to zero in the span are not found.
 * @returns the streams, those of them that differ or could not be read, and why it does not count as a success
 * @param options.accountId compares only the streams of this account; null for all
 * @param options.span null for the default one, which ends where the sums can no longer lag. Only a reconciliation of all accounts
 *   in that is stored
 */
export const reconcileUsage = async (
  { bulkDb, ...given }: BillingContext,
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
  const compared = await runConcurrently(
    processor?.name === "stripe" ? await listStripeStreams(context.db, accountId) : [],
    (stream) => compareStream(context, stream, span, signal),
    { concurrency: CONCURRENT_READS, signal },
  );
  return given.db.transaction(async (transaction) => {
    const differing = compared.filter(({ minutes }) => minutes.length > 0);
    await lockStreams(
      transaction,
      differing.flatMap(({ accountIds, kind }) =>
        accountIds.map((id) => ({ accountId: id, mode: "live" as const, kind })),
      ),
    );
    const streams: StreamReport[] = [];
    for (const { minutes, ...sums } of compared) {
      const differences: FoundUnits[] = [];
      for (const minute of minutes) {
        differences.push(...(await findUnexplained(transaction, sums, minute, clock.now())));
      }
      if (sums.error === null) {
        // With very many differences, a stream was compared up to the last one that was found.
        const last = minutes[MAXIMUM_DIFFERENCES - 1];
        const part = { ...span, ...(last && { end: last.part.start }) };
        await replaceOpenDifferences(transaction, sums, part, differences, startedAt);
      }
      streams.push({ ...sums, differences, skipped: minutes.length - differences.length });
    }
    const drifting = listStreamsNeedingAttention(streams);
    const [first, ...others] = drifting.filter(({ error }) => error !== null);
    const failure = first
      ? `${counted(others.length + 1, "stream")} could not be read, such as ${first.accountName}: ${first.error}`
      : null;
    if (accountId === null && givenSpan === null) {
      const record = { startedAt, endedAt: clock.now(), streams: streams.length, error: failure };
      await insertReconciliation(transaction, record);
    }
    return { span, streams, drifting, failure };
  });
};
