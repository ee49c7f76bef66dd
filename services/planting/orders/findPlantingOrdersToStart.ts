import type { CommonQueryMethods } from "slonik";
import {
  listPlantingOrdersToStart,
  markPlantingOrdersStarted,
} from "../../../db/planting/orderWorkflows.ts";
import type { Clock } from "../../../domain/clock.ts";

/** A small Temporal server starts about sixty child workflows a second. */
const STARTS_PER_PAGE = 50;

type Dependencies = { readonly db: CommonQueryMethods; readonly clock: Clock };

/**
 * Finds the next planting orders that need a workflow: new ones, and those whose workflow is lost.
 * @param deps.plantingOrderLostMs the time without a poll after which a workflow counts as lost
 */
export const findPlantingOrdersToStart = ({
  db,
  clock,
  plantingOrderLostMs,
}: Dependencies & { readonly plantingOrderLostMs: number }): Promise<readonly number[]> =>
  listPlantingOrdersToStart(
    db,
    new Date(clock.now().getTime() - plantingOrderLostMs),
    STARTS_PER_PAGE,
  );

export const recordPlantingOrdersStarted = (
  { db, clock }: Dependencies,
  orderIds: readonly number[],
): Promise<void> => markPlantingOrdersStarted(db, orderIds, clock.now());
