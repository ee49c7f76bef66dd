import {
  closeNextOrder,
  insertPlantingOrder,
  listNextOrders,
  lockNextOrder,
} from "./nextOrders.sql.ts";
import { isSimulated } from "./order.rules.ts";
import { newId } from "../../runtime/newId.ts";
import type { PlantingContext } from "./context.ts";
import type { Context } from "../../runtime/context.ts";
import { listPlantingOrdersToStart, markPlantingOrdersStarted } from "./orders.sql.ts";

/**
 * Creates a planting order of each account's registered trees that are in no order and not refunded. No tree is ever in two
 * orders, and the next call continues after a crash.
 * @param maximumSimulated how many simulated orders it creates at most, those first whose trees have waited the longest: they
 *   plant nothing, so they must not take the machine from what clients do
 */
export const createPlantingOrders = async (
  { db, clock, planting }: PlantingContext,
  signal: AbortSignal,
  maximumSimulated = Infinity,
): Promise<number> => {
  let created = 0;
  let simulated = 0;
  for (const order of await listNextOrders(db)) {
    signal.throwIfAborted();
    const { kind, name, timeline } = planting.partnerFor(order.mode);
    simulated += isSimulated(kind) ? 1 : 0;
    if (isSimulated(kind) && simulated > maximumSimulated) {
      continue;
    }
    await closeNextOrder(db, order.id);
    const isCreated = await db.transaction(
      async (transaction) =>
        (await lockNextOrder(transaction, order.id)) &&
        insertPlantingOrder(transaction, order, {
          publicId: `po_${newId().replaceAll("-", "")}`,
          partner: kind,
          partnerName: name,
          timeline,
          createdAt: clock.now(),
        }),
    );
    created += isCreated ? 1 : 0;
  }
  return created;
};

/** The interval between two polls of an order if its partner names none. They take months, and there may be very many. */
export const POLL_INTERVAL_MS = 6 * 60 * 60 * 1000;

/** A workflow counts as lost after two missed polls. */
const MISSED_POLLS = 2;

/** A small Temporal server starts about sixty workflows a second. */
const STARTS_PER_PAGE = 50;

/**
 * Starts the workflows of the orders that need one: new orders, and those whose workflow is lost.
 * @param context.startOrder starts the workflow of an order, unless it runs
 */
export const startPlantingOrders = async (
  { db, clock, startOrder }: Context & { readonly startOrder: (orderId: number) => Promise<void> },
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
