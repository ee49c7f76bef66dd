import { hostname } from "node:os";
import type { DatabasePool } from "slonik";
import {
  readDispatcherStatus,
  recordDispatcherPass,
} from "../modules/billing/sending/dispatcherLease.sql.ts";
import type { DispatcherLease } from "../modules/billing/sending/dispatcherLease.sql.ts";
import { pause } from "../runtime/waiting.ts";
import { createOutageLog } from "./repeatedCalls.ts";
import type { DispatchContext } from "./createWaker.ts";
import { PASSES } from "./dispatcherPasses.ts";
import { runWithLease } from "./runWithLease.ts";
import type { Logger } from "pino";

/** Passes follow each other within seconds; a change of the leader takes ten more. */
const TOLERATED_SILENCE_MS = 60_000;

type SilenceLog = {
  /** Records that a pass of any worker was complete, now or earlier. */
  readonly observePass: (ageMs?: number) => void;
  /** Logs once if there has been no complete pass for too long. */
  readonly check: (holder: string | null) => void;
};

/** Logs one line when no worker dispatches, and one when a worker does again. */
const createSilenceLog = (
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

const PASS_INTERVAL_MS = 1000;
/** The pause before the next attempt to lead, after losing the lease or failing to acquire it. */
const LEAD_RETRY_INTERVAL_MS = 3000;

type LeaderContext = DispatchContext & {
  /** A connection of its own for the lease, so that a busy pool does not cost the leadership. */
  readonly leases: DatabasePool;
  /** How long the lease lasts without a renewal. */
  readonly leaseMs?: number;
  /** How long no worker dispatches before that is logged. */
  readonly toleratedSilenceMs?: number;
  /** Called when this process becomes the leader and when it is no longer. */
  readonly observeLeadership?: (isLeader: boolean) => void;
};

/**
 * Starts or wakes the workflows of what waits in the database: unreported usage, unsettled refunds, events of the
 * processor and deliveries to webhook endpoints. The rows are the outbox, so nothing is lost while Temporal or this process
 * is down. The worker process that holds the lease dispatches. A leader that has lost the lease without noticing does no
 * harm: a second wake or start changes nothing, a stuck workflow is terminated by its run id, and a statement that writes
 * checks the lease.
 * @returns a promise that resolves after the signal is aborted
 */
export const runDispatcher = async (context: LeaderContext, signal: AbortSignal): Promise<void> => {
  const {
    db,
    leases,
    logger,
    leaseMs,
    toleratedSilenceMs,
    observeLeadership = () => undefined,
  } = context;
  const passes = PASSES.map((createPass) => createPass(context));
  const silence = createSilenceLog(logger, toleratedSilenceMs);
  const logOutage = createOutageLog(
    logger,
    "the dispatcher failed and retries; usage, refunds and events wait in the database",
  );
  const holder = `${hostname()}/${process.pid}/${crypto.randomUUID().slice(0, 8)}`;

  const lead = async (lease: DispatcherLease, leading: AbortSignal): Promise<void> => {
    while (!leading.aborted) {
      // A failure of one does not keep the others from running.
      const failures: unknown[] = [];
      for (const pass of passes) {
        await pass({ lease, signal: leading }).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) {
        throw failures[0];
      }
      if (leading.aborted || !(await recordDispatcherPass(db, lease))) {
        return;
      }
      silence.observePass();
      silence.check(holder);
      await pause(PASS_INTERVAL_MS, leading);
    }
  };

  const leadIfFree = (): Promise<boolean> =>
    runWithLease(
      { db: leases, holder, ...(leaseMs === undefined ? {} : { leaseMs }) },
      async (lease, leading) => {
        observeLeadership(true);
        try {
          await lead(lease, leading);
        } finally {
          observeLeadership(false);
        }
      },
      signal,
    );

  let leader: string | null = null;
  while (!signal.aborted) {
    try {
      await leadIfFree();
      const status = await readDispatcherStatus(leases);
      leader = status.isHeld ? status.holder : null;
      silence.observePass(status.lastPassAgeSeconds * 1000);
    } catch (error) {
      logOutage(error);
    }
    silence.check(leader);
    await pause(LEAD_RETRY_INTERVAL_MS, signal);
  }
};
