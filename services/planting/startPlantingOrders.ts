import type { CommonQueryMethods } from "slonik";
import {
  listPlantingOrdersToStart,
  markPlantingOrdersDispatched,
} from "../../db/planting/plantingOrders.ts";
import type { Clock } from "../../domain/clock.ts";

/** Child workflows started side by side: a small Temporal server manages some sixty a second. */
const STARTED_AT_ONCE = 50;

type Dependencies = { readonly db: CommonQueryMethods; readonly clock: Clock };

/**
 * The next planting orders that need a workflow: new ones, and those whose own seems lost.
 * @param deps.plantingSilenceMs after how long without a look an order's workflow counts as lost
 */
export const findPlantingOrdersToStart = ({
  db,
  clock,
  plantingSilenceMs,
}: Dependencies & { readonly plantingSilenceMs: number }): Promise<readonly number[]> =>
  listPlantingOrdersToStart(
    db,
    new Date(clock.now().getTime() - plantingSilenceMs),
    STARTED_AT_ONCE,
  );

/** Keeps that the orders have their workflows now. */
export const confirmPlantingOrdersStarted = (
  { db, clock }: Dependencies,
  orderIds: readonly number[],
): Promise<void> => markPlantingOrdersDispatched(db, orderIds, clock.now());
