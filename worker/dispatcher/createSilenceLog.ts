import type { Logger } from "pino";

/** Passes follow each other within seconds; a change of the leader takes ten more. */
const TOLERATED_SILENCE_MS = 60_000;

export type SilenceLog = {
  /** Records that a pass of any worker was complete, now or earlier. */
  readonly observePass: (ageMs?: number) => void;
  /** Logs once if there has been no complete pass for too long. */
  readonly check: (holder: string | null) => void;
};

/** Logs one line when no worker dispatches, and one when a worker does again. */
export const createSilenceLog = (
  logger: Logger,
  toleratedMs: number = TOLERATED_SILENCE_MS,
): SilenceLog => {
  // A fresh worker waits before it complains.
  let lastPassAtMs = performance.now();
  let isSilent = false;
  return {
    observePass: (ageMs = 0) => {
      lastPassAtMs = Math.max(lastPassAtMs, performance.now() - ageMs);
    },
    check: (holder) => {
      const silentMs = performance.now() - lastPassAtMs;
      if (silentMs >= toleratedMs && !isSilent) {
        isSilent = true;
        logger.error(
          { holder, silentSeconds: Math.round(silentMs / 1000) },
          "no worker dispatches; usage, refunds and events wait in the database",
        );
      }
      if (silentMs < toleratedMs && isSilent) {
        isSilent = false;
        logger.info({ holder }, "a worker dispatches again");
      }
    },
  };
};
