import { setTimeout as sleep } from "node:timers/promises";
import { ProcessorUnavailableError } from "./processor.ts";

const CALL_TIMEOUT_MS = 20_000;

/** Each read takes two calls, or some more; usage needs the rest of Stripe's rate limit. */
const INTERVAL_MS = 100;

/** An outage: each further call may take as long as its timeout. */
const MAXIMUM_UNAVAILABLE_IN_A_ROW = 3;

export type StripeSweep = {
  readonly read: number;
  /** What could not be read. */
  readonly failed: number;
};

export type SweepOptions = {
  readonly signal: AbortSignal;
  /** Called for each item that cannot be read; the others follow. */
  readonly onFailure: (id: string, error: unknown) => void;
  readonly intervalMs?: number;
};

/**
 * Reads many things of Stripe, one after another, at most ten a second.
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const sweepStripe = async <Item extends { readonly id: string }>(
  items: AsyncIterable<Item>,
  read: (item: Item, signal: AbortSignal) => Promise<void>,
  { signal, onFailure, intervalMs = INTERVAL_MS }: SweepOptions,
): Promise<StripeSweep> => {
  let [done, failed, unavailable] = [0, 0, 0];
  for await (const item of items) {
    try {
      await read(item, AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]));
      done += 1;
      unavailable = 0;
    } catch (error) {
      signal.throwIfAborted();
      failed += 1;
      onFailure(item.id, error);
      unavailable = error instanceof ProcessorUnavailableError ? unavailable + 1 : 0;
      if (unavailable === MAXIMUM_UNAVAILABLE_IN_A_ROW) {
        throw error;
      }
    }
    await sleep(intervalMs, undefined, { signal });
  }
  return { read: done, failed };
};
