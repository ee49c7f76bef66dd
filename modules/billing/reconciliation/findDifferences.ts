import type { Span } from "../usage.rules.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const STEPS = [DAY, HOUR, MINUTE] as const;

const split = ({ start, end }: Span, step: number): readonly Span[] => {
  const firstBoundary = Math.floor(start / step) * step + step;
  const starts = [start];
  for (let boundary = firstBoundary; boundary < end; boundary += step) {
    starts.push(boundary);
  }
  return starts.map((from, index) => ({ start: from, end: starts[index + 1] ?? end }));
};

/** The units of a stream in a part of a span: what was delivered, and what the processor has. */
export type Sums = {
  readonly readOurs: (part: Span) => Promise<number>;
  readonly readTheirs: (part: Span) => Promise<number>;
};

/** Returns what was delivered in a span. It is read in short steps, because a busy stream has an event in each second. */
export const sumOurs = async (span: Span, readOurs: Sums["readOurs"]): Promise<number> => {
  let sum = 0;
  for (const day of split(span, DAY)) {
    sum += await readOurs(day);
  }
  return sum;
};

/**
 * Finds the differing minutes of a span of whole minutes: compares days, then the hours of differing days, then minutes.
 * Differences that add up to zero within a day, or an hour, are not found.
 */
export async function* findDifferences(
  span: Span,
  sums: Sums,
  [step = MINUTE, ...finerSteps]: readonly number[] = STEPS,
): AsyncGenerator<Span, void, void> {
  for (const part of split(span, step)) {
    if ((await sums.readOurs(part)) !== (await sums.readTheirs(part))) {
      if (finerSteps.length === 0) {
        yield part;
      } else {
        yield* findDifferences(part, sums, finerSteps);
      }
    }
  }
}
