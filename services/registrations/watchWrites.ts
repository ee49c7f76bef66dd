import type { BatchObserver } from "../createGroupCommit.ts";

/** Longer than the time between two batches of a steady load. */
const RECENT_MS = 100;

/** Notes when registrations are written, so that slow reads can leave room for them. */
export const watchWrites = (
  nowMs: () => number = () => performance.now(),
): {
  /** Called after each batch is written. */
  readonly observeBatch: BatchObserver;
  /** Whether a batch has been written a moment ago. */
  readonly isWriting: () => boolean;
} => {
  let lastBatchAtMs = -Infinity;
  return {
    observeBatch: () => {
      lastBatchAtMs = nowMs();
    },
    isWriting: () => nowMs() - lastBatchAtMs < RECENT_MS,
  };
};
