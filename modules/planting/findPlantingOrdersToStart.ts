import { listPlantingOrdersToStart, markPlantingOrdersStarted } from "./orderWorkflows.sql.ts";
import type { Context } from "../../runtime/context.ts";
import { readLostMs } from "./pollInterval.ts";
import type { PollInterval } from "./pollInterval.ts";

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
