import { listPlantingOrdersToStart, markPlantingOrdersStarted } from "./orders.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** The interval between two polls of an order if its partner names none. They take months, and there may be very many. */
export const POLL_INTERVAL_MS = 6 * 60 * 60 * 1000;

/** A workflow counts as lost after two missed polls. */
const MISSED_POLLS = 2;

/** A small Temporal server starts about sixty workflows a second. */
const STARTS_PER_PAGE = 50;

/** Starts the workflows of the orders that need one: new orders, and those whose workflow is lost. */
export const startPlantingOrders = async (
  {
    db,
    clock,
    startOrder,
  }: Context & {
    /** Starts the workflow of an order, unless it runs. */
    readonly startOrder: (orderId: number) => Promise<void>;
  },
  signal: AbortSignal,
): Promise<void> => {
  for (;;) {
    signal.throwIfAborted();
    const lostSince = new Date(clock.now().getTime() - MISSED_POLLS * POLL_INTERVAL_MS);
    const ids = await listPlantingOrdersToStart(db, lostSince, STARTS_PER_PAGE);
    if (ids.length === 0) {
      return;
    }
    await Promise.all(ids.map(startOrder));
    await markPlantingOrdersStarted(db, ids, clock.now());
  }
};
