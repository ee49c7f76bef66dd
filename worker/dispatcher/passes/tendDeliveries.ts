import { failPendingDeliveries } from "../../../modules/events/deliveries.sql.ts";
import { makeFutureDeliveriesDue } from "../../../modules/events/recovery.sql.ts";
import { createScanPace } from "../../../db/shards/createScanPace.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

const CHECK_TIMES_INTERVAL_MS = 60 * 1000;

/** Looks for deliveries from before the clock was set back, and makes them due. */
export const createCheckDeliveryTimes = ({ db, clock }: DispatchContext): Pass => {
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() - checkedAtMs >= CHECK_TIMES_INTERVAL_MS) {
      await makeFutureDeliveriesDue(db, clock.now());
      checkedAtMs = performance.now();
    }
  };
};

/** Ends a part of what is pending at disabled endpoints: more than ends with the disabling, or what was recorded meanwhile. */
export const createEndDeliveries = ({ db }: DispatchContext): Pass => {
  const pace = createScanPace();
  return async () => {
    if (pace.isDue()) {
      await pace.scan(() => failPendingDeliveries(db, null));
    }
  };
};
