const DEFAULT_SHARE = 0.1;

/** What the next scan will find should not wait for longer. */
const MAXIMUM_INTERVAL_MS = 10_000;

export type ScanPace = {
  readonly isDue: () => boolean;
  /** Makes a scan. The next one is due when this one has taken its share of the time since its beginning. */
  readonly scan: <Result>(work: () => Promise<Result>) => Promise<Result>;
};

/**
 * Creates the pace of scans that are repeated. As long as a transaction is open, PostgreSQL keeps the index entries of what
 * was done meanwhile, and each scan reads more of them. Without a pace, scans would then take all of the time.
 * @param share the part of the time that scans take at most. One that takes longer than this part of ten seconds is repeated
 *   after ten seconds, or after resting for as long as it took.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createScanPace = (
  share = DEFAULT_SHARE,
  monotonicMs: () => number = () => performance.now(),
): ScanPace => {
  let dueAtMs = Number.NEGATIVE_INFINITY;
  return {
    isDue: () => monotonicMs() >= dueAtMs,
    scan: async (work) => {
      const startedAtMs = monotonicMs();
      dueAtMs = Number.POSITIVE_INFINITY;
      try {
        return await work();
      } finally {
        const durationMs = monotonicMs() - startedAtMs;
        const intervalMs = Math.min(durationMs / share, MAXIMUM_INTERVAL_MS);
        dueAtMs = startedAtMs + Math.max(intervalMs, 2 * durationMs);
      }
    },
  };
};
