const DEFAULT_SHARE = 0.1;

/** What the next scan will find should not wait for longer, if scans take less than half of it. */
const MAXIMUM_INTERVAL_MS = 10_000;

/** The shortest interval of scans that take longer, in durations of a scan. */
const LEAST_INTERVAL_PER_SCAN = 2;

export type ScanPace = {
  readonly isDue: () => boolean;
  /** Makes a scan. The next one is due when this one has taken its share of the time since its beginning; at once if it fails. */
  readonly scan: <Result>(work: () => Promise<Result>) => Promise<Result>;
};

/**
 * Creates the pace of scans that are repeated. As long as a transaction is open, PostgreSQL keeps the index entries of what
 * was done meanwhile, and each scan reads more of them. Without a pace, scans would then take all of the time.
 * @param share the part of the time that scans take at most. One that takes longer than this part of ten seconds is repeated
 *   after ten seconds, or after a pause as long as it took.
 * @param options.maximumIntervalMs replaces the ten seconds
 * @param options.monotonicMs milliseconds of the monotonic clock
 */
export const createScanPace = (
  share = DEFAULT_SHARE,
  {
    maximumIntervalMs = MAXIMUM_INTERVAL_MS,
    monotonicMs = () => performance.now(),
  }: { readonly maximumIntervalMs?: number; readonly monotonicMs?: () => number } = {},
): ScanPace => {
  let dueAtMs = Number.NEGATIVE_INFINITY;
  return {
    isDue: () => monotonicMs() >= dueAtMs,
    scan: async (work) => {
      const startedAtMs = monotonicMs();
      let intervalMs = 0;
      dueAtMs = Number.POSITIVE_INFINITY;
      try {
        const result = await work();
        const durationMs = monotonicMs() - startedAtMs;
        intervalMs = Math.max(
          Math.min(durationMs / share, maximumIntervalMs),
          LEAST_INTERVAL_PER_SCAN * durationMs,
        );
        return result;
      } finally {
        dueAtMs = startedAtMs + intervalMs;
      }
    },
  };
};
