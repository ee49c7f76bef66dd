import type { Clock } from "../runtime/clock.ts";

/** A page is a statement, which must end before its timeout. */
const PAGE_SIZE = 500;

const DEFAULT_SHARE = 0.1;

/** What the next scan will find should not wait for longer, if scans take less than half of it. */
const MAXIMUM_INTERVAL_MS = 10_000;

/** The shortest interval of work that takes longer, in durations of it. */
const LEAST_INTERVAL_PER_RUN = 2;

type Pace = {
  /**
   * The part of the time that the work takes at most. If it takes longer than this part of the maximum interval, it is
   * repeated after that interval, or after a pause as long as it took. If it fails, it may be repeated immediately.
   */
  readonly share?: number;
  readonly maximumIntervalMs?: number;
  readonly monotonicMs?: (() => number) | undefined;
};

/** Returns a function that does the work, or returns null if the next time is not due or an earlier one has not ended. */
export const createPaced = <Result>(
  work: () => Promise<Result>,
  {
    share = DEFAULT_SHARE,
    maximumIntervalMs = MAXIMUM_INTERVAL_MS,
    monotonicMs = () => performance.now(),
  }: Pace,
): (() => Promise<Result | null>) => {
  let dueAtMs = -Infinity;
  return async () => {
    const startedAtMs = monotonicMs();
    if (startedAtMs < dueAtMs) {
      return null;
    }
    dueAtMs = Infinity;
    let intervalMs = 0;
    try {
      const result = await work();
      const durationMs = monotonicMs() - startedAtMs;
      intervalMs = Math.max(
        Math.min(durationMs / share, maximumIntervalMs),
        LEAST_INTERVAL_PER_RUN * durationMs,
      );
      return result;
    } finally {
      dueAtMs = startedAtMs + intervalMs;
    }
  };
};

export type Scan<Item> = () => Promise<readonly Item[] | null>;

/**
 * Creates a scan that is repeated. As long as a transaction is open, PostgreSQL keeps the index entries of what was done
 * meanwhile, and each scan reads more of them. Without a pace, scans would then take all of the time.
 * @param list returns a page of what is ready at a time, in an order that is the same every time
 */
export const createScan = <Item>(
  clock: Clock,
  list: (page: {
    readonly after: Item | null;
    readonly now: Date;
    readonly limit: number;
  }) => Promise<readonly Item[]>,
  pace: Pace = {},
): Scan<Item> =>
  createPaced(async () => {
    const now = clock.now();
    const items: Item[] = [];
    let page: readonly Item[];
    do {
      page = await list({ after: items.at(-1) ?? null, now, limit: PAGE_SIZE });
      items.push(...page);
    } while (page.length === PAGE_SIZE);
    return items;
  }, pace);
