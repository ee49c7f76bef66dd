import { ownerKey } from "../../records/owner.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { BillingContext } from "../context.ts";
import type { BegunAttempt } from "./createAttemptPool.ts";
import { beginSending } from "./sendMeterEvent.ts";
import { reserveStripeCalls } from "./shareCallRate.ts";

export type AttemptQueue = {
  readonly add: (event: StoredMeterEvent) => void;
  /** Commits the next attempts with their lease and starts them. Calls to Stripe wait for their share of the rate. */
  readonly begin: () => Promise<void>;
  /** Forgets the events. The next scan finds those that still wait. */
  readonly clear: () => void;
  readonly streamKeys: () => readonly string[];
  readonly isEmpty: () => boolean;
};

/** Creates the queue of sealed events whose next attempt has not begun. */
export const createAttemptQueue = (
  context: BillingContext,
  start: (attempt: BegunAttempt) => void,
): AttemptQueue => {
  let waiting: StoredMeterEvent[] = [];

  const begin = async (
    events: readonly StoredMeterEvent[],
    startsAtMs: (index: number) => number,
  ): Promise<void> => {
    if (events.length === 0) {
      return;
    }
    const begun = await beginSending(
      context,
      events.map(({ id }) => id),
    );
    for (const [index, event] of begun.events.entries()) {
      start({ event, started: begun.started, startsAtMs: startsAtMs(index) });
    }
  };

  return {
    add: (event) => {
      waiting.push(event);
    },
    begin: async () => {
      const calls = waiting.filter(({ processor }) => processor === "stripe");
      const others = waiting.filter(({ processor }) => processor !== "stripe");
      waiting = calls;
      await begin(others, () => 0);
      if (calls.length > 0) {
        const reserved = await context.db.transaction((transaction) =>
          reserveStripeCalls(transaction, calls.length),
        );
        waiting = calls.slice(reserved.calls);
        await begin(calls.slice(0, reserved.calls), reserved.startsAtMs);
      }
    },
    clear: () => {
      waiting = [];
    },
    streamKeys: () => waiting.map(ownerKey),
    isEmpty: () => waiting.length === 0,
  };
};
