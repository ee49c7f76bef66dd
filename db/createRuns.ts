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

/** Scans that go on beside the steps of a run. */
const createScans = (sender: Sender) => {
  let isScanning = false;
  let hasScanned = false;
  let failure: { readonly error: unknown } | null = null;
  const scan = async (): Promise<void> => {
    try {
      await sender.scan();
      hasScanned = true;
    } catch (error) {
      failure = { error };
    }
    isScanning = false;
  };
  return {
    /** Begins a scan, unless one is in progress. */
    begin: (): void => {
      if (!isScanning) {
        isScanning = true;
        void scan();
      }
    },
    /**
     * Returns whether a scan has ended since the last call.
     * @throws the error of the scan
     */
    takeEnded: (): boolean => {
      const failed = failure;
      const hasEnded = hasScanned;
      [failure, hasScanned] = [null, false];
      if (failed) {
        throw failed.error;
      }
      return hasEnded;
    },
  };
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
    const scans = createScans(sender);
    let scannedSecond: number | null = null;
    while (!hasEnded()) {
      const second = secondOf(clock.now());
      if (second !== scannedSecond) {
        scannedSecond = second;
        scans.begin();
      }
      const hasScanned = scans.takeEnded();
      await sender.step();
      // The step has begun what the scan has found.
      if (hasScanned && performance.now() - recordedAtMs >= RECORD_INTERVAL_MS) {
        await recordPass(db, kind);
        recordedAtMs = performance.now();
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
