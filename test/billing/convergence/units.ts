import { METERS } from "../../../modules/billing/stripe/meters.ts";
import { KINDS } from "../../../modules/records/owner.rules.ts";
import type { Kind } from "../../../modules/records/owner.rules.ts";

export const MINUTE = 60;

export const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

export type Units = { readonly kind: Kind; readonly second: number; readonly units: number };

const minuteOf = ({ kind, second }: Omit<Units, "units">): string =>
  `${kind} ${Math.floor((second - NOON) / MINUTE)}`;

/** Returns the sums by kind and minute after noon. */
export const sumByMinute = (entries: readonly Units[]): ReadonlyMap<string, number> => {
  const sums = new Map<string, number>();
  for (const entry of entries) {
    const minute = minuteOf(entry);
    sums.set(minute, (sums.get(minute) ?? 0) + entry.units);
  }
  return sums;
};

export const kindOfMeter = (eventName: string): Kind =>
  KINDS.find((kind) => METERS[kind].eventName === eventName) ?? "tree";
