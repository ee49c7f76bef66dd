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

  return {
    add: (event) => {
      waiting.push(event);
    },
    begin: async () => {
      if (waiting.length === 0) {
        return;
      }
      const reserved = await context.db.transaction((transaction) =>
        reserveStripeCalls(transaction, waiting.length),
      );
      const called = waiting.slice(0, reserved.calls);
      waiting = waiting.slice(reserved.calls);
      if (called.length === 0) {
        return;
      }
      const { started, events } = await beginSending(
        context,
        called.map(({ id }) => id),
      );
      for (const [index, event] of events.entries()) {
        start({ event, started, startsAtMs: reserved.startsAtMs(index) });
      }
    },
    clear: () => {
      waiting = [];
    },
    streamKeys: () => waiting.map(ownerKey),
    isEmpty: () => waiting.length === 0,
  };
};
