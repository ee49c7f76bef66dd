import { nextSize } from "../../../db/bulkWork.rules.ts";
import type { Span } from "../usage.rules.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";

/**
 * Reads a span: whole, or in short steps as long as bulk work yields to what clients record.
 * @param firstPartSeconds the first of these steps; the next ones depend on how long it took
 * @param maximumPartSeconds bounds their growth in time without usage, after which the next step may have much
 */
export async function* inParts<Result>(
  { start, end }: Span,
  {
    pace,
    firstPartSeconds,
    maximumPartSeconds,
  }: {
    readonly pace: BulkPace;
    readonly firstPartSeconds: number;
    readonly maximumPartSeconds: number;
  },
  read: (part: Span) => Promise<Result>,
): AsyncGenerator<Result, void, void> {
  let seconds = firstPartSeconds;
  let next = start;
  while (next < end) {
    const part = { start: next, end: pace.isYielding() ? Math.min(end, next + seconds) : end };
    yield await read(part);
    seconds = Math.min(maximumPartSeconds, nextSize(seconds, pace.lastStepMs()));
    next = part.end;
  }
}

const FIRST_GROUP = 10;

/** Reads about items: all together, or in short steps as long as bulk work yields to what clients record. */
export async function* inGroups<Item, Result>(
  items: readonly Item[],
  pace: BulkPace,
  read: (group: readonly Item[]) => Promise<Result>,
): AsyncGenerator<Result, void, void> {
  let size = FIRST_GROUP;
  let next = 0;
  while (next < items.length) {
    const end = pace.isYielding() ? next + size : items.length;
    yield await read(items.slice(next, end));
    size = nextSize(size, pace.lastStepMs());
    next = end;
  }
}
