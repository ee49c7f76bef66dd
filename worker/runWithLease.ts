import type { CommonQueryMethods } from "slonik";
import {
  acquireDispatcherLease,
  releaseDispatcherLease,
  renewDispatcherLease,
} from "../modules/billing/sending/dispatcherLease.sql.ts";
import type { DispatcherLease } from "../modules/billing/sending/dispatcherLease.sql.ts";
import { withTimeout, pause } from "../runtime/waiting.ts";

/** A killed leader's successor waits this long. */
const LEASE_MS = 10_000;
const RENEWALS_PER_LEASE = 4;

type LeaseOptions = {
  /** Not used by the work, so that slow queries do not delay a renewal. */
  readonly db: CommonQueryMethods;
  /** Unique among all processes. */
  readonly holder: string;
  readonly leaseMs?: number;
};

/** Renews the lease until `ended` is aborted. Resolves earlier if the lease was lost or could not be renewed in time. */
const keepLease = async (
  { db, leaseMs }: { readonly db: CommonQueryMethods; readonly leaseMs: number },
  lease: DispatcherLease,
  ended: AbortSignal,
): Promise<void> => {
  let renewedAtMs = performance.now();
  while (!ended.aborted) {
    await pause(leaseMs / RENEWALS_PER_LEASE, ended);
    const sentAtMs = performance.now();
    const remainingMs = Math.max(1, Math.ceil(renewedAtMs + leaseMs - sentAtMs));
    try {
      const isHeld = await withTimeout(
        AbortSignal.any([ended, AbortSignal.timeout(remainingMs)]),
        renewDispatcherLease(db, lease, leaseMs),
      );
      if (!isHeld) {
        return;
      }
      renewedAtMs = sentAtMs;
    } catch {
      // Another attempt follows while the lease lasts; after that, the next leader's log says who leads.
      if (performance.now() - renewedAtMs >= leaseMs) {
        return;
      }
    }
  }
};

/**
 * Runs the work if this process can acquire the dispatcher's lease, and renews the lease meanwhile. The signal that the
 * work receives is aborted if the lease is lost. It may be late, so each statement of the work must be harmless without
 * the lease.
 * @returns whether the lease was acquired
 */
export const runWithLease = async (
  { db, holder, leaseMs = LEASE_MS }: LeaseOptions,
  work: (lease: DispatcherLease, signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<boolean> => {
  const lease = await acquireDispatcherLease(db, { holder, durationMs: leaseMs });
  if (lease === null) {
    return false;
  }
  const ended = new AbortController();
  const lost = new AbortController();
  const keeping = keepLease({ db, leaseMs }, lease, ended.signal).then(() => lost.abort());
  try {
    await work(lease, AbortSignal.any([signal, lost.signal]));
  } finally {
    ended.abort();
    await keeping;
    // Without a connection it expires.
    await releaseDispatcherLease(db, lease).catch(() => undefined);
  }
  return true;
};
