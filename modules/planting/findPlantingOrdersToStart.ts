import {
  listPlantingOrdersToStart,
  markPlantingOrdersStarted,
  estimateOpenOrders,
} from "./orderWorkflows.sql.ts";
import type { Context } from "../../runtime/context.ts";

export type PollInterval = {
  /** The interval between two polls of an order, unless there are very many open orders. */
  readonly plantingPollMs: number;
};

/** The most polls of all open orders together. They share the workers and Temporal with what cannot wait. */
const POLLS_PER_SECOND = 10;

/** A failed poll is retried within ten minutes, so a shorter silence does not mean that the workflow is lost. */
const MINIMUM_LOST_MS = 30 * 60 * 1000;

/** Returns the interval between two polls of an order if its partner names none. */
export const readPollIntervalMs = async ({
  db,
  plantingPollMs,
}: Pick<Context, "db"> & PollInterval): Promise<number> =>
  Math.max(plantingPollMs, ((await estimateOpenOrders(db)) / POLLS_PER_SECOND) * 1000);

/** Returns the time without a poll after which an order's workflow counts as lost: three missed polls. */
const readLostMs = async (context: Pick<Context, "db"> & PollInterval): Promise<number> =>
  Math.max(3 * (await readPollIntervalMs(context)), MINIMUM_LOST_MS);

/** A small Temporal server starts about sixty child workflows a second. */
const STARTS_PER_PAGE = 50;

/** Finds the next planting orders that need a workflow: new ones, and those whose workflow is lost. */
export const findPlantingOrdersToStart = async (
  context: Context & PollInterval,
): Promise<readonly number[]> => {
  const lostSince = new Date(context.clock.now().getTime() - (await readLostMs(context)));
  return listPlantingOrdersToStart(context.db, lostSince, STARTS_PER_PAGE);
};

export const recordPlantingOrdersStarted = (
  { db, clock }: Context,
  orderIds: readonly number[],
): Promise<void> => markPlantingOrdersStarted(db, orderIds, clock.now());
