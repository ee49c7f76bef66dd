import type { Planting } from "../../modules/planting/createPlanting.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import { placePlantingOrder, pollPlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";

const NEVER_ABORTED = new AbortController().signal;

/** Returns a simulated partner that has planted an order as soon as it is polled. */
export const createPlantedPlanting = (): Planting =>
  createPlanting({
    partner: "simulated",
    partnerName: null,
    treeMapper: null,
    manual: { timeline: "allocations" },
    simulated: {
      timeline: "allocations",
      durations: { allocationMs: 0, plantingMs: 0, verificationMs: 0 },
    },
  });

/** Plants the first orders of a database. */
export const plantOrders = async (
  context: Parameters<typeof placePlantingOrder>[0],
  orders: number,
): Promise<void> => {
  for (let id = 1; id <= orders; id += 1) {
    await placePlantingOrder(context, id, NEVER_ABORTED);
    await pollPlantingOrder(context, id, NEVER_ABORTED);
  }
};
