import type { Lease } from "../../../db/leases.ts";
import { LEASE_MS } from "./decideNextStep.rules.ts";
import type { BillingContext } from "../context.ts";

type Clocks = Pick<BillingContext, "clock" | "monotonicMs">;

/** When an attempt's lease began, by two clocks: setting one moves it, and the other may stop with the machine. */
export type LeaseStart = { readonly at: Date; readonly monotonicMs: number };

export const startLease = ({
  clock,
  monotonicMs = () => performance.now(),
}: Clocks): LeaseStart => ({
  at: clock.now(),
  monotonicMs: monotonicMs(),
});

export const isLeaseOver = (start: LeaseStart, clocks: Clocks): boolean => {
  const now = startLease(clocks);
  const elapsedMs = Math.max(
    now.at.getTime() - start.at.getTime(),
    now.monotonicMs - start.monotonicMs,
  );
  return elapsedMs >= LEASE_MS;
};

export const leaseOf = ({ at }: Pick<LeaseStart, "at">): Lease => ({
  now: at,
  until: new Date(at.getTime() + LEASE_MS),
});
