import {
  listPlantingOrdersToStart,
  markPlantingOrdersStarted,
  estimateOpenOrders,
} from "./orderWorkflows.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** The interval between two polls of an order, unless there are very many open orders. */
const POLL_MS = 60 * 60 * 1000;

/** The most polls of all open orders together. They share the workers and Temporal with what cannot wait. */
const POLLS_PER_SECOND = 10;

/** Returns the interval between two polls of an order if its partner names none. */
export const readPollIntervalMs = async ({ db }: Pick<Context, "db">): Promise<number> =>
  Math.max(POLL_MS, ((await estimateOpenOrders(db)) / POLLS_PER_SECOND) * 1000);

/** A workflow counts as lost after three missed polls. */
const MISSED_POLLS = 3;

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
    const lostMs = MISSED_POLLS * (await readPollIntervalMs({ db }));
    const lostSince = new Date(clock.now().getTime() - lostMs);
    const ids = await listPlantingOrdersToStart(db, lostSince, STARTS_PER_PAGE);
    if (ids.length === 0) {
      return;
    }
    await Promise.all(ids.map(startOrder));
    await markPlantingOrdersStarted(db, ids, clock.now());
  }
};
