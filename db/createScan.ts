import type { Clock } from "../runtime/clock.ts";

/** A page is a statement, which must end before its timeout. */
const PAGE_SIZE = 500;

const DEFAULT_SHARE = 0.1;

/** What the next scan will find should not wait for longer, if scans take less than half of it. */
const MAXIMUM_INTERVAL_MS = 10_000;

/** The shortest interval of scans that take longer, in durations of a scan. */
const LEAST_INTERVAL_PER_SCAN = 2;

/** Returns what waits, or null if the next scan is not due. */
export type Scan<Item> = () => Promise<readonly Item[] | null>;

/**
 * Creates a scan that is repeated. As long as a transaction is open, PostgreSQL keeps the index entries of what was done
 * meanwhile, and each scan reads more of them. Without a pace, scans would then take all of the time.
 * @param list returns a page of what is ready at a time, in an order that is the same every time
 * @param options.share the part of the time that scans take at most. One that takes longer than this part of ten seconds is
 *   repeated after ten seconds, or after a pause as long as it took. One that fails is repeated at once.
 * @param options.monotonicMs milliseconds of the monotonic clock
 */
export const createScan = <Item>(
  clock: Clock,
  list: (page: {
    readonly after: Item | null;
    readonly now: Date;
    readonly limit: number;
  }) => Promise<readonly Item[]>,
  {
    share = DEFAULT_SHARE,
    monotonicMs = () => performance.now(),
  }: { readonly share?: number; readonly monotonicMs?: (() => number) | undefined } = {},
): Scan<Item> => {
  let dueAtMs = Number.NEGATIVE_INFINITY;

  const listAll = async (now: Date): Promise<readonly Item[]> => {
    const items: Item[] = [];
    let page: readonly Item[];
    do {
      page = await list({ after: items.at(-1) ?? null, now, limit: PAGE_SIZE });
      items.push(...page);
    } while (page.length === PAGE_SIZE);
    return items;
  };

  return async () => {
    const startedAtMs = monotonicMs();
    if (startedAtMs < dueAtMs) {
      return null;
    }
    // Not while this one is in progress.
    dueAtMs = Number.POSITIVE_INFINITY;
    let intervalMs = 0;
    try {
      const items = await listAll(clock.now());
      const durationMs = monotonicMs() - startedAtMs;
      intervalMs = Math.max(
        Math.min(durationMs / share, MAXIMUM_INTERVAL_MS),
        LEAST_INTERVAL_PER_SCAN * durationMs,
      );
      return items;
    } finally {
      dueAtMs = startedAtMs + intervalMs;
    }
  };
};
