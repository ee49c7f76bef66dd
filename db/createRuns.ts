import type { Context } from "../runtime/context.ts";
import { secondOf } from "../runtime/durations.rules.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { recordPass } from "./perpetualWork.sql.ts";

/** Long enough to cost nothing, and short enough that workers that are started later soon get their share. */
const RUN_MS = 60_000;

const SECOND_MS = 1000;

/** Each commit waits for the disk. */
const RECORD_INTERVAL_MS = 4000;

/** What does work of a kind. */
export type Sender = {
  /** Looks for all work that is ready. Steps go on meanwhile. */
  readonly scan: () => Promise<void>;
  /** Begins what is ready, as far as there is room. Does not wait for it to end. */
  readonly step: () => Promise<void>;
  /** Waits until another step has something to do, but no longer than this. */
  readonly waitForWork: (atMostMs: number) => Promise<void>;
  /** Resolves when all that has begun has ended and is recorded. */
  readonly settled: () => Promise<void>;
};

/** When a run ends before its minute. */
type RunSignals = {
  /** No more work begins once it is aborted; calls in flight are finished. */
  readonly stop: AbortSignal;
  /** Aborts calls in flight. */
  readonly signal: AbortSignal;
};

export type Runs = {
  /** Does the work for a minute. It looks for work every second, unless that takes longer. */
  readonly run: (signals: RunSignals) => Promise<void>;
  /** Aborts the calls in flight that no run has continued, and waits until that is recorded. */
  readonly end: () => Promise<void>;
};

export type RunOptions = {
  readonly kind: PerpetualKind;
  /** @param signal aborts the sender's calls, for good */
  readonly createSender: (signal: AbortSignal) => Sender;
  /** How long a run lasts instead of a minute. */
  readonly runMs?: number | undefined;
};

/** Begins a scan that goes on beside the steps of a run. Its outcome is null until it has ended. */
const beginScan = (sender: Sender) => {
  const scan: { outcome: PromiseSettledResult<void> | null } = { outcome: null };
  const run = async (): Promise<void> => {
    [scan.outcome] = await Promise.allSettled([sender.scan()]);
  };
  void run();
  return scan;
};

const activate = (createSender: RunOptions["createSender"]) => {
  const calls = new AbortController();
  return { calls, sender: createSender(calls.signal) };
};

/**
 * Creates the runs of a worker. A sender outlasts its run: the next one continues with its calls in flight, so a slow call
 * holds up nothing at the end of a minute. After a run that was canceled, the next one has a new sender.
 */
export const createRuns = (
  { db, clock }: Context,
  { kind, createSender, runMs = RUN_MS }: RunOptions,
): Runs => {
  let active: ReturnType<typeof activate> | null = null;
  let recordedAtMs = -Infinity;

  /** Scans once a second, and makes steps until the run has ended. */
  const work = async (sender: Sender, hasEnded: () => boolean): Promise<void> => {
    let scan: ReturnType<typeof beginScan> | null = null;
    let scannedSecond: number | null = null;
    while (!hasEnded()) {
      const second = secondOf(clock.now());
      if (scan === null && second !== scannedSecond) {
        scannedSecond = second;
        scan = beginScan(sender);
      }
      const outcome = scan?.outcome;
      if (outcome?.status === "rejected") {
        throw outcome.reason;
      }
      await sender.step();
      if (outcome) {
        scan = null;
        // The step has begun what the scan has found.
        if (performance.now() - recordedAtMs >= RECORD_INTERVAL_MS) {
          await recordPass(db, kind);
          recordedAtMs = performance.now();
        }
      }
      await sender.waitForWork(SECOND_MS - (clock.now().getTime() % SECOND_MS));
    }
  };

  return {
    run: async ({ stop, signal }) => {
      const current = (active ??= activate(createSender));
      const { calls, sender } = current;
      const abort = (): void => calls.abort();
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) {
        abort();
      }
      const isStopped = (): boolean => stop.aborted || calls.signal.aborted;
      const endsAtMs = performance.now() + runMs;
      try {
        await work(sender, () => isStopped() || performance.now() >= endsAtMs);
      } finally {
        if (isStopped()) {
          await sender.settled();
        }
        if (calls.signal.aborted && active === current) {
          active = null;
        }
        signal.removeEventListener("abort", abort);
      }
    },
    end: async () => {
      active?.calls.abort();
      await active?.sender.settled();
    },
  };
};
