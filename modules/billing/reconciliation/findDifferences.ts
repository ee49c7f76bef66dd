import type { AcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import type { MinuteSums } from "./reportedStreams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";

export const MINUTE = 60;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A minute in which the processor's sum differs from what was delivered. `minute` is its first unix second. */
export type Difference = {
  readonly minute: number;
  readonly ours: number;
  readonly processor: number;
  /** Whether recent deliveries, which the processor's sums may or may not contain, can explain it. */
  readonly mayLag: boolean;
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

export const acknowledgedIn = (
  acknowledged: readonly AcknowledgedDrift[],
  { start, end }: Span,
): number =>
  acknowledged.reduce(
    (sum, { minute, units }) => (minute >= start && minute < end ? sum + units : sum),
    0,
  );

export const sumIn = (minutes: readonly MinuteSums[], { start, end }: Span): number =>
  minutes.reduce(
    (sum, { minute, delivered }) => (minute >= start && minute < end ? sum + delivered : sum),
    0,
  );

/** Our sums, and what operators have acknowledged. */
type OwnSums = {
  readonly minutes: readonly MinuteSums[];
  readonly acknowledged: readonly AcknowledgedDrift[];
};

/** Our sums and a way to read the processor's. */
export type Sums = OwnSums & { readonly readTheirs: (part: Span) => Promise<number> };

/**
 * Returns whether the processor's sum of a minute lacks only usage and refunds that were delivered recently, and has no
 * others than those that are being sent.
 */
const canBeLag = ({ minutes, acknowledged }: OwnSums, minute: number, theirs: number): boolean => {
  const own = minutes.find((sums) => sums.minute === minute);
  if (own === undefined) {
    return false;
  }
  const expected = own.delivered + acknowledgedIn(acknowledged, minuteOf(minute));
  return (
    theirs >= expected - own.recentlyAdded + own.sendingRefunded &&
    theirs <= expected - own.recentlyRefunded + own.sendingAdded
  );
};

/** Explains differences also by our sums that were read after the processor's: they have what was sent meanwhile. */
export const explainDifferences = (
  differences: readonly Difference[],
  later: OwnSums,
): readonly Difference[] =>
  differences.map((difference) => ({
    ...difference,
    mayLag: difference.mayLag || canBeLag(later, difference.minute, difference.processor),
  }));

/** Finds the differing minutes of a span of whole minutes: compares days, then the hours of differing days, then minutes. */
export async function* findDifferences(
  span: Span,
  sums: Sums,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<Difference, void, void> {
  for (const part of split(span, step)) {
    const ours = sumIn(sums.minutes, part);
    const expected = ours + acknowledgedIn(sums.acknowledged, part);
    const processor = await sums.readTheirs(part);
    if (expected !== processor && finerSteps.length === 0) {
      const mayLag = canBeLag(sums, part.start, processor);
      yield { minute: part.start, ours, processor, mayLag };
    } else if (expected !== processor) {
      yield* findDifferences(part, sums, finerSteps);
    }
  }
}
