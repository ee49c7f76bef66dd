import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import {
  createPlantingOrders,
  POLL_INTERVAL_MS,
  startPlantingOrders,
} from "../modules/planting/createPlantingOrders.ts";
import { pollPlantingOrder } from "../modules/planting/pollPlantingOrder.ts";
import type { PlantingContext } from "../modules/planting/context.ts";
import { withHeartbeat } from "./withHeartbeat.ts";
import { ApplicationFailure } from "@temporalio/common";
import { DomainError } from "../runtime/errors.rules.ts";

/** The activities of planting. Each is idempotent: its progress is stored in the database. */
export const createPlantingActivities = (
  context: PlantingContext &
    Parameters<typeof startPlantingOrders>[0] & {
      /** The pool of the work for all accounts together, which yields to what clients record. */
      readonly bulkDb: DatabasePool;
      readonly plantingOrderIntervalMs: number;
    },
) => ({
  /**
   * Creates planting orders of the trees that have none, and starts the workflows of orders. Existing orders are started
   * first, so that they do not wait for a creation that takes as long as it may.
   */
  createPlantingOrders: (): Promise<void> =>
    withHeartbeat(async (signal) => {
      await startPlantingOrders(context, signal);
      // One for each second of the interval.
      const maximumSimulated = context.plantingOrderIntervalMs / 1000;
      await createPlantingOrders({ ...context, db: context.bulkDb }, signal, maximumSimulated);
      await startPlantingOrders(context, signal);
    }),

  /**
   * Places an order with its partner, if it is not placed, polls the partner once, and returns when to poll again. Most errors
   * pass with time or are corrected by the partner; an order that does not exist never will.
   */
  pollPlantingOrder: async (orderId: number) => {
    const { isFinished, nextPollMs } = await pollPlantingOrder(
      context,
      orderId,
      Context.current().cancellationSignal,
    ).catch((error: unknown) => {
      throw error instanceof DomainError && error.code === "record_not_found"
        ? ApplicationFailure.nonRetryable(error.message, error.code)
        : error;
    });
    return { isFinished, nextPollMs: nextPollMs ?? POLL_INTERVAL_MS };
  },
});

export type PlantingActivities = ReturnType<typeof createPlantingActivities>;
