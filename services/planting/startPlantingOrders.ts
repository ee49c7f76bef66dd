import type { CommonQueryMethods } from "slonik";
import { listPlantingOrdersToStart, markPlantingOrdersStarted } from "../../db/planting/orders.ts";
import type { Clock } from "../../domain/clock.ts";

/** Child workflows started side by side: a small Temporal server manages some sixty a second. */
const STARTED_AT_ONCE = 50;

type Dependencies = { readonly db: CommonQueryMethods; readonly clock: Clock };

/**
 * The next planting orders that need a workflow: new ones, and those whose own seems lost.
 * @param deps.plantingOrderLostMs after how long without a look an order's workflow counts as lost
 */
export const findPlantingOrdersToStart = ({
  db,
  clock,
  plantingOrderLostMs,
}: Dependencies & { readonly plantingOrderLostMs: number }): Promise<readonly number[]> =>
  listPlantingOrdersToStart(
    db,
    new Date(clock.now().getTime() - plantingOrderLostMs),
    STARTED_AT_ONCE,
  );

/** Keeps that the orders have their workflows now. */
export const recordPlantingOrdersStarted = (
  { db, clock }: Dependencies,
  orderIds: readonly number[],
): Promise<void> => markPlantingOrdersStarted(db, orderIds, clock.now());
