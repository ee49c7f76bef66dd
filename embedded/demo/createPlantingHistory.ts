import type { DatabasePool } from "slonik";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { placePlantingOrder, pollPlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import type { HistoryClock } from "./historyContext.ts";

const NEVER = new AbortController().signal;
const MAXIMUM_ORDERS = 1000;

/** Takes planting orders through their stages when each is due, as their workflows do. */
export const createPlantingHistory = (context: {
  readonly db: DatabasePool;
  readonly planting: Planting;
  readonly clock: HistoryClock;
}) => {
  const { db, clock } = context;
  const seen = new Set<number>();
  const polls: { readonly at: Date; readonly orderId: number }[] = [];

  const poll = async (orderId: number): Promise<void> => {
    const { isFinished, nextPollMs } = await pollPlantingOrder(context, orderId, NEVER);
    if (!isFinished && nextPollMs !== null) {
      polls.push({ at: new Date(clock.now().getTime() + nextPollMs), orderId });
    }
  };

  return {
    /** Orders the trees that are in no order. */
    order: async (at: Date): Promise<void> => {
      clock.moveTo(at);
      await createPlantingOrders(context, NEVER);
      for (const { id } of await listPlantingOrders(db, { limit: MAXIMUM_ORDERS })) {
        if (!seen.has(id)) {
          seen.add(id);
          await placePlantingOrder(context, id, NEVER);
          await poll(id);
        }
      }
    },
    /** Makes the polls that are due by a time, in their order. */
    advance: async (to: Date): Promise<void> => {
      for (;;) {
        polls.sort((one, other) => one.at.getTime() - other.at.getTime());
        const [next] = polls;
        if (next === undefined || next.at > to) {
          return;
        }
        polls.shift();
        clock.moveTo(next.at);
        await poll(next.orderId);
      }
    },
  };
};
